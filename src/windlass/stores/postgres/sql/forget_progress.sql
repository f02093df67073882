-- forget_progress: remove how far removed tasks had come.
-- batch: id uuid
DELETE FROM windlass.progress WHERE task = ANY (:id::uuid[]);
