-- unnotified: which of these ends somebody still waits for. The ORDER BY is there for the plan, as in `announce`.
-- batch: id uuid
SELECT i.id
  FROM unnest(:id::uuid[]) AS i (id)
 CROSS JOIN LATERAL (
       SELECT FROM windlass.edge AS e WHERE e.parent = i.id AND NOT e.resolved ORDER BY e.child LIMIT 1) AS open_edge;
