-- open_among: return the tasks of those of these edges that are unresolved. OFFSET 0 as in `resolved_edges`.
-- batch: child uuid, parent uuid
SELECT e.child
  FROM unnest(:child::uuid[], :parent::uuid[]) AS i (child, parent)
 CROSS JOIN LATERAL (
       SELECT child FROM windlass.edge
        WHERE edge.child = i.child AND edge.parent = i.parent AND NOT resolved OFFSET 0) AS e;
