-- open_edges: who is still to be told, at most so many for each end.
-- batch: parent uuid, after uuid
SELECT i.parent, open_edge.child
  FROM unnest(:parent::uuid[], :after::uuid[]) AS i (parent, after)
 CROSS JOIN LATERAL (
       SELECT e.child FROM windlass.edge AS e
        WHERE e.parent = i.parent AND e.child > i.after AND NOT e.resolved
        ORDER BY e.child
        LIMIT :limit) AS open_edge;
