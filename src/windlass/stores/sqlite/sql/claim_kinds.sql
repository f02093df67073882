-- claim_kinds: choose the next tasks of a kind in a queue. Whoever asks for several puts them into one order.
-- moves: runnable -> leased
-- Runnable rows need no test of their due time. A lost session and a paused queue find nothing. Nobody
-- else holds a lock here, so there is no need to look further than to the limit (`reach`).
-- batch: queue text, kind integer
SELECT (SELECT epoch FROM meta), :now,
       t.id, t.queue, t.tenant, t.state, t.band, t.rank, t.tie, t.due, t.expires, t.waiting, t.on_failure, t.fence,
       t.session, t.claimed, t.finished, t.attempts, t.crashes, t.losses, t.generation, t.cancel_requested,
       t.cancel_by, t.reason,
       b.handler, b.args, b.rules, b.workflow, b.key, b.priority, b.deadline, b.first_due, b.submitted
  FROM task AS t CROSS JOIN body AS b ON b.id = t.id
 WHERE t.queue = :queue AND t.kind = :kind AND t.state = 'runnable'
   AND (t.expires IS NULL OR t.expires > :now)
   AND EXISTS (SELECT 1 FROM session AS s WHERE s.id = :session AND s.lost = 0)
   AND NOT EXISTS (SELECT 1 FROM queue AS q WHERE q.name = :queue AND q.paused = 1)
 ORDER BY t.band, t.rank, t.tie, t.id
 LIMIT min(:limit, :reach);
