-- add_runnable: make queued tasks runnable.
-- moves: new | waiting | scheduled | retrying | leased | failed | cancelled | expired -> runnable
-- batch: id uuid
INSERT INTO windlass.runnable (queue, lot, band, rank, tie, id, kind, due, expires)
SELECT t.*
  FROM unnest(:id::uuid[]) AS i (id)
 CROSS JOIN LATERAL (
       SELECT queue, lot, band, rank, tie, id, kind, due, expires FROM windlass.task WHERE task.id = i.id OFFSET 0) AS t;
