-- lock_claims: let one claim at a time choose in these scopes, until the end of the transaction. In order of the names,
-- so that two claims do not wait for each other.
SELECT pg_advisory_xact_lock(windlass.lane('windlass claims ' || name)) FROM unnest(:names::text[]) AS i (name);
