-- keys: return the keys of tasks, for an error message.
-- batch: id blob
SELECT id, key FROM task WHERE id = :id;
