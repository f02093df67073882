-- forget_tasks: remove tasks.
-- batch: id uuid
DELETE FROM windlass.task WHERE id = ANY (:id::uuid[]);
