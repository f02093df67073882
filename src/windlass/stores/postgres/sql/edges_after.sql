-- edges_after: some edges, in order, with what the stall detector needs to see whether a wake-up was lost.
-- The planner takes a LIMIT that it does not know for a tenth of the table, and would read all of it: so the edges have
-- one that it knows, no smaller than what is ever asked for, and OFFSET 0 makes it look each parent up by its id.
SELECT e.child, e.parent, e.resolved, p.state, p.finished, d.parent IS NOT NULL OR b.task IS NOT NULL,
       j.child IS NOT NULL
  FROM (SELECT * FROM (SELECT child, parent, resolved FROM windlass.edge
                        WHERE (child, parent) > (:child::uuid, :parent::uuid)
                        ORDER BY child, parent LIMIT 1000) AS next
         LIMIT :limit) AS e
  LEFT JOIN LATERAL (SELECT state, finished FROM windlass.task WHERE task.id = e.parent OFFSET 0) AS p ON true
  LEFT JOIN LATERAL (SELECT parent FROM windlass.ended WHERE ended.parent = e.parent OFFSET 0) AS d ON true
  LEFT JOIN LATERAL (SELECT task FROM windlass.bulk_task WHERE bulk_task.task = e.parent LIMIT 1) AS b ON true
  LEFT JOIN LATERAL (SELECT child FROM windlass.joining WHERE joining.child = e.child OFFSET 0) AS j ON true
 ORDER BY e.child, e.parent;
