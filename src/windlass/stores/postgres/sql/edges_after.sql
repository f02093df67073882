-- edges_after: some edges, in order, with what the stall detector needs to see whether a wake-up was lost.
SELECT e.child, e.parent, e.resolved, p.state, p.finished, d.parent IS NOT NULL OR b.task IS NOT NULL,
       j.child IS NOT NULL
  FROM (SELECT child, parent, resolved FROM windlass.edge
         WHERE (child, parent) > (:child::uuid, :parent::uuid)
         ORDER BY child, parent LIMIT :limit) AS e
  LEFT JOIN windlass.task AS p ON p.id = e.parent
  LEFT JOIN windlass.ended AS d ON d.parent = e.parent
  LEFT JOIN LATERAL (SELECT task FROM windlass.bulk_task WHERE task = e.parent LIMIT 1) AS b ON true
  LEFT JOIN windlass.joining AS j ON j.child = e.child
 ORDER BY e.child, e.parent;
