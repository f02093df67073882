-- open_edges: return the unresolved edges of ended tasks, up to a limit for each.
-- batch: parent uuid, after uuid
SELECT i.parent, open_edge.child
  FROM unnest(:parent::uuid[], :after::uuid[]) AS i (parent, after)
 CROSS JOIN LATERAL (
       SELECT e.child FROM windlass.edge AS e
        WHERE e.parent = i.parent AND e.child > i.after AND NOT e.resolved
        ORDER BY e.child
        LIMIT :limit) AS open_edge;
