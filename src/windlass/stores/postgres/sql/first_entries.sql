-- first_entries: the first entries of the audit log, and when they were written.
SELECT number, at FROM windlass.audit WHERE number > 0 ORDER BY number LIMIT :limit;
