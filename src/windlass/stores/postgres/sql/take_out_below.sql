-- take_out_below: of the tasks that were added to a retry, take out what is below those taken out, as far as the limit
-- goes.
WITH RECURSIVE below (id) AS (
    SELECT next.child
      FROM (SELECT task FROM windlass.bulk_task WHERE bulk = :bulk AND stage = 'out' AND task <= :last) AS start
     CROSS JOIN LATERAL (
           SELECT e.child
             FROM windlass.edge AS e JOIN windlass.bulk_task AS m ON m.bulk = :bulk AND m.task = e.child
            WHERE e.parent = start.task AND m.stage = 'in' AND NOT m.chosen
            ORDER BY e.child LIMIT :limit) AS next
     UNION
    SELECT next.child
      FROM below
     CROSS JOIN LATERAL (
           SELECT e.child
             FROM windlass.edge AS e JOIN windlass.bulk_task AS m ON m.bulk = :bulk AND m.task = e.child
            WHERE e.parent = below.id AND m.stage = 'in' AND NOT m.chosen
            ORDER BY e.child LIMIT :limit) AS next
)
UPDATE windlass.bulk_task SET stage = 'found'
 WHERE bulk = :bulk AND task IN (SELECT id FROM below LIMIT :limit)
RETURNING task;
