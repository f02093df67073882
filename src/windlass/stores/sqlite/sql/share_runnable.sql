-- share_runnable: return the id of a task if it is runnable. With one writer at a time, no lock is needed.
-- batch: id blob
SELECT t.id
  FROM task AS t CROSS JOIN runnable AS r
 WHERE t.id = :id
   AND r.queue = t.queue AND r.lot = t.lot AND r.band = t.band AND r.rank = t.rank AND r.tie = t.tie AND r.id = t.id;
