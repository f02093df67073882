-- keys: the key of a task, for a refusal that names it as its caller does.
-- batch: id blob
SELECT id, key FROM body WHERE id = :id;
