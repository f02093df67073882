-- forget_tasks: remove tasks.
-- batch: id blob
DELETE FROM task WHERE id = :id;
