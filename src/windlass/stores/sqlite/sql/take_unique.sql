-- take_unique: give a lock to another task.
-- batch: id blob, task blob, until integer
INSERT INTO unique_lock (id, task, until, look) VALUES (:id, :task, :until, :until)
    ON CONFLICT (id) DO UPDATE SET task = excluded.task, until = excluded.until, look = excluded.look;
