-- forget_entries: remove old entries of the audit log, the first ones first.
DELETE FROM windlass.audit
 WHERE number IN (SELECT number FROM windlass.audit ORDER BY number LIMIT :limit) AND at < :before::bigint;
