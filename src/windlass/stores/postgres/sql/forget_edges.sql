-- forget_edges: remove the edges of removed tasks, both ways; one that came meanwhile and is still open stays, and is
-- found to lead nowhere when its task is adopted. The rows are found by id and then removed by where they stand: as
-- conditions of the DELETE itself, both ways together make a planner without statistics read all of the table.
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
