-- record_freed: write down the scopes of limits in which leases have ended.
-- batch: queue text, tenant text, handler text, limit_key text
INSERT INTO windlass.freed (queue, tenant, handler, limit_key)
SELECT * FROM unnest(:queue::text[], :tenant::text[], :handler::text[], :limit_key::text[]);
