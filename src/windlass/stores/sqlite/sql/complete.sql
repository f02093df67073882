-- complete: write the plain good end of an attempt, one that only a cancel request could turn into something else.
-- moves: leased -> completed
-- One statement in place of `hold` and `settle`, for nearly every attempt ends like this. Fenced like `settle`. What
-- does not come back was not as the report says, and is looked at again.
-- batch: id blob, fence integer, session blob
UPDATE task
   SET state = 'completed', finished = :now, attempts = attempts + 1, reason = NULL
 WHERE id = :id AND state = 'leased' AND fence = :fence AND session = :session AND cancel_requested = 0
RETURNING id, queue, tenant, finished;
