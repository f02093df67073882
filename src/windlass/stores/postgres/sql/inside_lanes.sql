-- inside_lanes: return tasks that are in lanes of tenants, of a queue that is no longer fair, and its open partition.
-- For `(SELECT 0)`, see `find_lanes`.
SELECT r.queue, r.lot, r.band, r.rank, r.tie, r.id, windlass.open_lot(:queue)
  FROM windlass.runnable AS r
 WHERE r.queue = :queue AND r.lot > :after::bigint AND r.lot < (SELECT 0)
 ORDER BY r.lot, r.band, r.rank, r.tie, r.id LIMIT :limit;
