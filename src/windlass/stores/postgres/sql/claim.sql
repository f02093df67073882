-- claim: choose and lock the next tasks of a queue, in its order.
-- moves: runnable -> leased
-- Runnable rows need no test of their due time. A lost session and a paused queue find nothing. Rows that somebody
-- else has locked are passed over, so claims never wait for each other.
WITH chosen AS MATERIALIZED (
    SELECT id, queue, tenant, state, band, rank, tie, due, expires, waiting, on_failure, fence, session, claimed,
           finished, attempts, crashes, losses, generation, cancel_requested, cancel_by, reason
      FROM windlass.task
     WHERE queue = :queue AND state = 'runnable'
       AND (expires IS NULL OR expires > (SELECT windlass.clock(:now)))
       AND EXISTS (SELECT FROM windlass.session AS s WHERE s.id = :session AND NOT s.lost)
       AND NOT EXISTS (SELECT FROM windlass.queue AS q WHERE q.name = :queue AND q.paused)
     ORDER BY band, rank, tie, id
     LIMIT :limit
       FOR UPDATE SKIP LOCKED
)
SELECT (SELECT epoch FROM windlass.meta), (SELECT windlass.clock(:now)),
       c.id, c.queue, c.tenant, c.state, c.band, c.rank, c.tie, c.due, c.expires, c.waiting, c.on_failure, c.fence,
       c.session, c.claimed, c.finished, c.attempts, c.crashes, c.losses, c.generation, c.cancel_requested,
       c.cancel_by, c.reason,
       b.handler, b.args, b.rules, b.workflow, b.key, b.priority, b.deadline, b.first_due, b.submitted
  FROM chosen AS c JOIN windlass.body AS b USING (id)
 ORDER BY c.band, c.rank, c.tie, c.id;
