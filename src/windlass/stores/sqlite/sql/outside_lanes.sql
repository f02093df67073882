-- outside_lanes: return tasks of a fair queue that are in no lane.
SELECT r.queue, r.lot, r.band, r.rank, r.tie, r.id, t.tenant
  FROM runnable AS r CROSS JOIN task AS t ON t.id = r.id
 WHERE r.queue = +:queue AND r.lot >= 0 ORDER BY r.lot, r.band, r.rank, r.tie, r.id LIMIT +:limit;
