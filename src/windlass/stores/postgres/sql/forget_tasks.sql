-- forget_tasks: remove tasks that have ended. `forget_completed` removes their other rows.
-- batch: id uuid
DELETE FROM windlass.task WHERE id = ANY (:id::uuid[]);
