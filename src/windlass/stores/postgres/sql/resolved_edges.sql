-- resolved_edges: what these tasks have waited for.
-- OFFSET 0: look each one up by its id; a planner without statistics would read all of the table for a batch.
-- batch: child uuid
SELECT e.child, e.parent
  FROM unnest(:child::uuid[]) AS i (child)
 CROSS JOIN LATERAL (
       SELECT child, parent FROM windlass.edge WHERE edge.child = i.child AND resolved OFFSET 0) AS e;
