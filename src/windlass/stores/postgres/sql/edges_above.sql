-- edges_above: return the open edges of tasks to their prerequisites.
-- OFFSET 0 forces lookups by id; without statistics the planner might read the whole table.
-- batch: child uuid
SELECT e.child, e.parent
  FROM unnest(:child::uuid[]) AS i (child)
 CROSS JOIN LATERAL (
       SELECT child, parent FROM windlass.edge WHERE edge.child = i.child AND NOT resolved OFFSET 0) AS e;
