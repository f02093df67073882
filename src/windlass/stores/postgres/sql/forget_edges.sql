-- forget_edges: remove the edges of removed tasks, in both directions.
-- An open edge that was added meanwhile stays; it is resolved as missing when its task is checked again (`joining`).
-- The rows are found by id and removed by ctid: as conditions of the DELETE, both directions together could make the
-- planner read the whole table.
-- batch: id uuid
DELETE FROM windlass.edge
 WHERE ctid = ANY (ARRAY(
       SELECT e.place
         FROM unnest(:id::uuid[]) AS i (id)
        CROSS JOIN LATERAL (
              SELECT above.place
                FROM (SELECT ctid AS place FROM windlass.edge WHERE edge.child = i.id FOR UPDATE) AS above
               UNION ALL
              SELECT below.place
                FROM (SELECT ctid AS place FROM windlass.edge
                       WHERE edge.parent = i.id AND resolved FOR UPDATE) AS below) AS e));
