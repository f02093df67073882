-- take_out_below: exclude the dependents of tasks that were excluded from a retry, up to a limit.
WITH RECURSIVE below (id) AS (
    SELECT e.child
      FROM (SELECT task FROM windlass.bulk_task WHERE bulk = :bulk AND stage = 'out' AND task <= :last) AS start
     CROSS JOIN LATERAL (SELECT child FROM windlass.edge WHERE parent = start.task ORDER BY child OFFSET 0) AS e
     CROSS JOIN LATERAL (
           SELECT stage, chosen FROM windlass.bulk_task WHERE bulk = :bulk AND task = e.child LIMIT 1) AS m
     WHERE m.stage = 'in' AND NOT m.chosen
     UNION
    SELECT e.child
      FROM below
     CROSS JOIN LATERAL (SELECT child FROM windlass.edge WHERE parent = below.id ORDER BY child OFFSET 0) AS e
     CROSS JOIN LATERAL (
           SELECT stage, chosen FROM windlass.bulk_task WHERE bulk = :bulk AND task = e.child LIMIT 1) AS m
     WHERE m.stage = 'in' AND NOT m.chosen
)
UPDATE windlass.bulk_task SET stage = 'found'
 WHERE bulk = :bulk AND task = ANY (ARRAY(SELECT id FROM below LIMIT :limit))
RETURNING task;
