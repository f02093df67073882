-- edges_after: return some edges in order, with what the stall detector needs.
-- Subqueries, because SQLite would compute the whole view for a LEFT JOIN to it.
SELECT e.child, e.parent, e.resolved, (SELECT p.state FROM current_task AS p WHERE p.id = e.parent),
       (SELECT p.finished FROM current_task AS p WHERE p.id = e.parent),
       d.parent IS NOT NULL OR EXISTS (SELECT 1 FROM bulk_task AS b WHERE b.task = e.parent), j.child IS NOT NULL
  FROM (SELECT child, parent, resolved FROM edge
         WHERE (child, parent) > (:child, :parent)
         ORDER BY child, parent LIMIT :limit) AS e
  LEFT JOIN ended AS d ON d.parent = e.parent
  LEFT JOIN joining AS j ON j.child = e.child
 ORDER BY e.child, e.parent;
