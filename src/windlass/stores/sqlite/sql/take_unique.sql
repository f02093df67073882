-- take_unique: give a lock to another task.
-- batch: id blob, task blob, until integer
UPDATE unique_lock SET task = :task, until = :until, look = :until WHERE id = :id;
