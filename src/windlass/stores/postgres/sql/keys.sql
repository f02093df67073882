-- keys: return the keys of tasks, for an error message.
-- batch: id uuid
SELECT id, key FROM windlass.body WHERE id = ANY (:id::uuid[]);
