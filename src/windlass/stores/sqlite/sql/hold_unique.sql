-- hold_unique: insert the locks of unique tasks, or find those that exist. Returns who holds each, and until when.
-- batch: id blob, task blob, period integer
INSERT INTO unique_lock AS l (id, task, until, look)
VALUES (:id, :task, :now + :period, :now + :period)
    ON CONFLICT (id) DO UPDATE SET until = l.until
RETURNING id, task, until;
