-- unnotified: return those of these tasks that have unresolved edges. The ORDER BY is for the plan, as in `announce`.
-- batch: id uuid
SELECT i.id
  FROM unnest(:id::uuid[]) AS i (id)
 CROSS JOIN LATERAL (
       SELECT FROM windlass.edge AS e WHERE e.parent = i.id AND NOT e.resolved ORDER BY e.child LIMIT 1) AS open_edge;
