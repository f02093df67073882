-- parked_after: return some lanes with tasks that a limit held back, in order, and whether they have any task.
SELECT p.queue, p.tenant, p.name, p.lot,
       (SELECT true FROM windlass.runnable AS r WHERE r.queue = p.queue AND r.lot = p.lot LIMIT 1) IS NOT NULL
  FROM windlass.parked AS p
 WHERE p.name <> '' AND (p.queue, p.tenant, p.name) > (:queue, :tenant, :name)
 ORDER BY p.queue, p.tenant, p.name
 LIMIT :limit;
