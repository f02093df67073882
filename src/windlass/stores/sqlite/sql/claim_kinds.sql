-- claim_kinds: select the next tasks of a kind in a queue. The caller merges several kinds into one order.
-- Runnable rows need no check of their due time. A lost session or a paused queue gets nothing. There is only one
-- writer, so :reach is not used. By default SQLite prefers the primary key and skips the other kinds one by one.
-- `+` keeps SQLite from preparing the statement again for each value, because of partial indexes of `task`.
-- moves: runnable -> leased
-- batch: queue text, kind integer
SELECT t.id, max(t.fence, (SELECT epoch << 40 FROM meta) + t.submitted / 10000) + 1, t.handler, t.args, t.rules, t.queue,
       t.tenant, t.due, :now, t.attempts, t.crashes, t.losses, t.expires, t.deadline, t.workflow, t.key,
       r.lot, r.band, r.rank, r.tie
  FROM runnable AS r INDEXED BY runnable_kind CROSS JOIN task AS t ON t.id = r.id
 WHERE r.queue = +:queue AND r.lot = 0 AND r.kind = +:kind
   AND (r.expires IS NULL OR r.expires > +:now)
   AND EXISTS (SELECT 1 FROM session AS s WHERE s.id = +:session AND s.lost = 0)
   AND NOT EXISTS (SELECT 1 FROM queue AS q
                    WHERE q.name = +:queue
                      AND (q.fair = 1 OR q.paused = 1 AND (q.paused_until IS NULL OR q.paused_until > +:now)))
   AND NOT EXISTS (SELECT 1 FROM parked AS p WHERE p.queue = +:queue)
   AND (SELECT settings FROM meta) = +:settings
 ORDER BY r.band, r.rank, r.tie, r.id
 LIMIT min(+:limit, :reach);
