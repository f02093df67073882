-- keys: return the keys of tasks, for an error message.
-- batch: id uuid
SELECT id, key FROM windlass.task WHERE id = ANY (:id::uuid[]);
