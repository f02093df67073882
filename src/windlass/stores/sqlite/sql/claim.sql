-- claim: select the next tasks of a queue, in its order.
-- Runnable rows need no check of their due time. A lost session or a paused queue gets nothing.
-- moves: runnable -> leased
SELECT (SELECT epoch FROM meta), :now,
       t.id, t.queue, t.tenant, t.state, t.band, t.rank, t.tie, t.due, t.expires, t.waiting, t.on_failure, t.fence,
       t.session, t.claimed, t.finished, t.attempts, t.crashes, t.losses, t.generation, t.cancel_requested,
       t.cancel_by, t.reason,
       b.handler, b.args, b.rules, b.workflow, b.key, b.priority, b.deadline, b.first_due, b.submitted
  FROM task AS t CROSS JOIN body AS b ON b.id = t.id
 WHERE t.queue = :queue AND t.state = 'runnable'
   AND (t.expires IS NULL OR t.expires > :now)
   AND EXISTS (SELECT 1 FROM session AS s WHERE s.id = :session AND s.lost = 0)
   AND NOT EXISTS (SELECT 1 FROM queue AS q WHERE q.name = :queue AND q.paused = 1)
 ORDER BY t.band, t.rank, t.tie, t.id
 LIMIT :limit;
