-- outside_lanes: return tasks of a fair queue that are in no lane. For `(SELECT 0)`, see `find_lanes`.
SELECT r.queue, r.lot, r.band, r.rank, r.tie, r.id, t.tenant
  FROM (SELECT queue, lot, band, rank, tie, id FROM windlass.runnable
         WHERE queue = :queue AND lot >= (SELECT 0) ORDER BY lot, band, rank, tie, id LIMIT :limit) AS r
 CROSS JOIN LATERAL (SELECT tenant FROM windlass.task WHERE task.id = r.id OFFSET 0) AS t;
