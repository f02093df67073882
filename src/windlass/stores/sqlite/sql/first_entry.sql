-- first_entry: when the first entry of the audit log was written.
SELECT at FROM audit ORDER BY number LIMIT 1;
