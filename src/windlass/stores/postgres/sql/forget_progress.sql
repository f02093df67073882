-- forget_progress: remove the progress of removed tasks.
-- batch: id uuid
DELETE FROM windlass.progress WHERE task = ANY (:id::uuid[]);
