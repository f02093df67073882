-- keys: the keys of some tasks, for a refusal that names them as their callers do.
-- batch: id uuid
SELECT id, key FROM windlass.body WHERE id = ANY (:id::uuid[]);
