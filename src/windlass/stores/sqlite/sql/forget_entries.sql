-- forget_entries: remove old entries of the audit log, the first ones first.
DELETE FROM audit
 WHERE number IN (SELECT number FROM audit ORDER BY number LIMIT :limit) AND at < :before;
