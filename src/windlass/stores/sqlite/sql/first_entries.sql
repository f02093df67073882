-- first_entries: return the first entries of the audit log and their times.
SELECT number, at FROM audit WHERE number > 0 ORDER BY number LIMIT :limit;
