-- hold_unique: insert the locks of unique tasks, or lock those that exist. Returns who holds each, until when, and
-- whether it is new.
-- The batch is in id order, so that two submits of the same locks wait for each other instead of deadlocking. `xmax` is 0
-- only in a row that this statement has inserted: one that existed was locked first, which sets it.
-- batch: id uuid, task uuid, period bigint
INSERT INTO windlass.unique_lock AS l (id, task, until, look)
SELECT i.id, i.task, (SELECT windlass.clock(:now)) + i.period, (SELECT windlass.clock(:now)) + i.period
  FROM unnest(:id::uuid[], :task::uuid[], :period::bigint[]) AS i (id, task, period)
    ON CONFLICT (id) DO UPDATE SET until = l.until
RETURNING id, task, until, xmax = 0;
