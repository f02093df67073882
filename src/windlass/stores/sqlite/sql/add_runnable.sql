-- add_runnable: make a queued task runnable.
-- moves: new | waiting | scheduled | retrying | leased | failed | cancelled | expired -> runnable
-- batch: id blob
INSERT INTO runnable (queue, lot, band, rank, tie, id, kind, due, expires)
SELECT queue, lot, band, rank, tie, id, kind, due, expires FROM task WHERE id = :id;
