-- find_lanes: return lanes of a fair queue after a number, with their tenants, in order. One index lookup per lane.
WITH RECURSIVE lanes (lot, nth) AS (
    SELECT (SELECT min(lot) FROM runnable WHERE queue = +:queue AND lot > +:after AND lot < 0), 1
     UNION ALL
    SELECT (SELECT min(r.lot) FROM runnable AS r WHERE r.queue = +:queue AND r.lot > lanes.lot AND r.lot < 0), nth + 1
      FROM lanes WHERE lanes.lot IS NOT NULL AND nth < +:limit
)
SELECT lanes.lot, t.tenant
  FROM lanes CROSS JOIN task AS t
    ON t.id = (SELECT r.id FROM runnable AS r WHERE r.queue = +:queue AND r.lot = lanes.lot LIMIT 1);
