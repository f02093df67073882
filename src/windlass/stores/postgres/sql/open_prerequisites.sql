-- open_prerequisites: return what these tasks still wait for. OFFSET 0 as in `resolved_edges`.
-- batch: child uuid
SELECT DISTINCT e.parent
  FROM unnest(:child::uuid[]) AS i (child)
 CROSS JOIN LATERAL (
       SELECT parent FROM windlass.edge WHERE edge.child = i.child AND NOT resolved OFFSET 0) AS e;
