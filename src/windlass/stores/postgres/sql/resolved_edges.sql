-- resolved_edges: return the resolved edges of tasks.
-- OFFSET 0 forces lookups by id; without statistics the planner might read the whole table.
-- batch: child uuid
SELECT e.child, e.parent
  FROM unnest(:child::uuid[]) AS i (child)
 CROSS JOIN LATERAL (
       SELECT child, parent FROM windlass.edge WHERE edge.child = i.child AND resolved OFFSET 0) AS e;
