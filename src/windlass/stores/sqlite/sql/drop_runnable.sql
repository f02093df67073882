-- drop_runnable: remove a task from the runnable ones.
-- batch: id blob
DELETE FROM runnable
 WHERE (queue, lot, band, rank, tie, id) = (SELECT queue, lot, band, rank, tie, id FROM task WHERE id = :id);
