-- complete: write plain good ends of attempts, the ones that only a cancel request could turn into something else.
-- moves: leased -> completed
-- One statement in place of `hold` and `settle`, for nearly every attempt ends like this. Fenced like `settle`, and
-- locked in id order like every set of tasks. What does not come back was not as the report says, and is looked at again.
-- batch: id uuid, fence bigint, session uuid
WITH held AS MATERIALIZED (
    SELECT t.id
      FROM unnest(:id::uuid[], :fence::bigint[], :session::uuid[]) AS i (id, fence, session)
      JOIN windlass.task AS t
        ON t.id = i.id AND t.state IS NOT DISTINCT FROM 'leased' AND t.fence = i.fence AND t.session = i.session
       AND NOT t.cancel_requested
     ORDER BY t.id
       FOR UPDATE OF t
)
UPDATE windlass.task AS t
   SET state = 'completed', finished = (SELECT windlass.clock(:now)), attempts = t.attempts + 1, reason = NULL
  FROM held
 WHERE t.id = held.id
RETURNING t.id, t.queue, t.tenant, t.finished;
