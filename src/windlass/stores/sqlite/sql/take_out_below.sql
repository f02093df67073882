-- take_out_below: exclude the dependents of tasks that were excluded from a retry, up to a limit.
WITH RECURSIVE below (id) AS (
    SELECT e.child
      FROM bulk_task AS start CROSS JOIN edge AS e CROSS JOIN bulk_task AS m
     WHERE start.bulk = :bulk AND start.stage = 'out' AND start.task <= :last
       AND e.parent = start.task AND m.bulk = :bulk AND m.task = e.child AND m.stage = 'in' AND m.chosen = 0
     UNION
    SELECT e.child
      FROM below CROSS JOIN edge AS e CROSS JOIN bulk_task AS m
     WHERE e.parent = below.id AND m.bulk = :bulk AND m.task = e.child AND m.stage = 'in' AND m.chosen = 0
)
UPDATE bulk_task SET stage = 'found'
 WHERE bulk = :bulk AND task IN (SELECT id FROM below LIMIT :limit)
RETURNING task;
