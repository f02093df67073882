-- complete: write a completed attempt, which only a cancel request could change.
-- One statement instead of `lock_tasks` and `settle`, because most attempts end like this. It checks the fence like
-- `settle`. An attempt that it does not return needs `settle`.
-- moves: leased -> completed
-- batch: id blob, fence integer, session blob
UPDATE task
   SET state = 'completed', finished = :now, attempts = attempts + 1, reason = NULL
 WHERE id = :id AND state = 'leased' AND fence = :fence AND session = :session AND cancel_requested = 0
RETURNING id, queue, tenant, finished;
