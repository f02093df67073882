-- kind_candidates: as `candidates`, for a kind of tasks in partitions.
-- For `+`, see `claim_chosen`.
-- batch: queue text, lot integer, kind integer, tasks integer
SELECT r.queue, r.lot, r.band, r.rank, r.tie, r.id, t.tenant, t.handler, t.rules
  FROM runnable AS r INDEXED BY runnable_kind CROSS JOIN task AS t ON t.id = r.id
 WHERE r.queue = +:queue AND r.lot = +:lot AND r.kind = +:kind AND (r.expires IS NULL OR r.expires > +:now)
 ORDER BY r.band, r.rank, r.tie, r.id
 LIMIT +:tasks;
