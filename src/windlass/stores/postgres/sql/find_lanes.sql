-- find_lanes: return lanes of a fair queue after a number, with their tenants, in order. One index lookup per lane.
-- `(SELECT 0)` hides from the planner that the number is below 0. Else it could go by an index of lanes in another order.
WITH RECURSIVE lanes AS (
    (SELECT r.lot, r.id, 1 AS nth
       FROM windlass.runnable AS r
      WHERE r.queue = :queue AND r.lot > :after::bigint AND r.lot < (SELECT 0)
      ORDER BY r.lot, r.band, r.rank, r.tie, r.id LIMIT 1)
     UNION ALL
    SELECT head.lot, head.id, nth + 1
      FROM lanes CROSS JOIN LATERAL (
           SELECT r.lot, r.id
             FROM windlass.runnable AS r
            WHERE r.queue = :queue AND r.lot > lanes.lot AND r.lot < (SELECT 0)
            ORDER BY r.lot, r.band, r.rank, r.tie, r.id LIMIT 1) AS head
     WHERE nth < :limit::bigint
)
SELECT lanes.lot, t.tenant
  FROM lanes CROSS JOIN LATERAL (SELECT tenant FROM windlass.task WHERE task.id = lanes.id OFFSET 0) AS t;
