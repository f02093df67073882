-- parked_after: return some lanes with tasks that a limit held back, in order, and whether they have any task.
SELECT p.queue, p.tenant, p.name, p.lot,
       EXISTS (SELECT 1 FROM runnable AS r WHERE r.queue = p.queue AND r.lot = p.lot)
  FROM parked AS p
 WHERE p.name <> '' AND (p.queue, p.tenant, p.name) > (:queue, :tenant, :name)
 ORDER BY p.queue, p.tenant, p.name
 LIMIT :limit;
