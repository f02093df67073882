-- edges_after: return some edges in order, with what the stall detector needs.
-- For an unknown LIMIT the planner would assume a tenth of the table and read the whole table. So the inner LIMIT is a
-- constant, no smaller than any in use, and OFFSET 0 forces lookups of parents by id.
SELECT e.child, e.parent, e.resolved, p.state, p.finished, d.parent IS NOT NULL OR b.task IS NOT NULL,
       j.child IS NOT NULL
  FROM (SELECT * FROM (SELECT child, parent, resolved FROM windlass.edge
                        WHERE (child, parent) > (:child::uuid, :parent::uuid)
                        ORDER BY child, parent LIMIT 1000) AS next
         LIMIT :limit) AS e
  LEFT JOIN LATERAL (SELECT state, finished FROM windlass.current_task WHERE current_task.id = e.parent OFFSET 0) AS p ON true
  LEFT JOIN LATERAL (SELECT parent FROM windlass.ended WHERE ended.parent = e.parent OFFSET 0) AS d ON true
  LEFT JOIN LATERAL (SELECT task FROM windlass.bulk_task WHERE bulk_task.task = e.parent LIMIT 1) AS b ON true
  LEFT JOIN LATERAL (SELECT child FROM windlass.joining WHERE joining.child = e.child OFFSET 0) AS j ON true
 ORDER BY e.child, e.parent;
