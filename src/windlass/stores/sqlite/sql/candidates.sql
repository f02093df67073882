-- candidates: return the first tasks of a partition or lane, with what decides whether they may start.
-- For `+`, see `claim_chosen`.
-- batch: queue text, lot integer, tasks integer
SELECT r.queue, r.lot, r.band, r.rank, r.tie, r.id, t.tenant, t.handler, t.rules
  FROM runnable AS r CROSS JOIN task AS t ON t.id = r.id
 WHERE r.queue = +:queue AND r.lot = +:lot AND (r.expires IS NULL OR r.expires > +:now)
 ORDER BY r.band, r.rank, r.tie, r.id
 LIMIT +:tasks;
