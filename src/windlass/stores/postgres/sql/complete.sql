-- complete: write completed attempts, which only a cancel request could change.
-- One statement instead of `lock_tasks` and `settle`, because most attempts end like this. It checks the fence like
-- `settle`, and locks in id order. Attempts that it does not return need `settle`.
-- moves: leased -> completed
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
