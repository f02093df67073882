-- forget_tasks: remove a task that has ended. `forget_completed` removes its other row.
-- batch: id blob
DELETE FROM task WHERE id = :id;
