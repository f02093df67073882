-- claim: select the next tasks of a queue, in its order, with the fences of their leases. It selects nothing of a queue
-- that needs more than that (`claim_guard`): a fair queue, or one with tasks that a limit held back; nor if the settings
-- have changed.
-- Runnable rows need no check of their due time. A lost session or a paused queue gets nothing.
-- `+` keeps SQLite from preparing the statement again for each value, because of partial indexes of `task`.
-- moves: runnable -> leased
SELECT t.id, max(t.fence, (SELECT epoch << 40 FROM meta) + t.submitted / 10000) + 1, t.handler, t.args, t.rules, t.queue,
       t.tenant, t.due, :now, t.attempts, t.crashes, t.losses, t.expires, t.deadline, t.workflow, t.key,
       r.lot, r.band, r.rank, r.tie
  FROM runnable AS r CROSS JOIN task AS t ON t.id = r.id
 WHERE r.queue = +:queue AND r.lot = 0
   AND (r.expires IS NULL OR r.expires > +:now)
   AND EXISTS (SELECT 1 FROM session AS s WHERE s.id = +:session AND s.lost = 0)
   AND NOT EXISTS (SELECT 1 FROM queue AS q
                    WHERE q.name = +:queue
                      AND (q.fair = 1 OR q.paused = 1 AND (q.paused_until IS NULL OR q.paused_until > +:now)))
   AND NOT EXISTS (SELECT 1 FROM parked AS p WHERE p.queue = +:queue)
   AND (SELECT settings FROM meta) = +:settings
 ORDER BY r.band, r.rank, r.tie, r.id
 LIMIT +:limit;
