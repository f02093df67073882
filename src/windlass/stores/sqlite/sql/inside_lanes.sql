-- inside_lanes: return tasks that are in lanes of tenants, of a queue that is no longer fair, and its open partition.
SELECT r.queue, r.lot, r.band, r.rank, r.tie, r.id, 0
  FROM runnable AS r
 WHERE r.queue = :queue AND r.lot > :after AND r.lot < 0
 ORDER BY r.lot, r.band, r.rank, r.tie, r.id LIMIT :limit;
