-- add_taken_down: add to a retry what was cancelled because of tasks that it is about, as far down as the limit goes,
-- which stops the recursion. Fewer than that: there is nothing more below these.
-- The steps are laid down: from a task to its edges, from an edge to its task. Left to itself the server may begin with
-- all that is cancelled.
WITH RECURSIVE below (id) AS (
    SELECT e.child
      FROM (SELECT task FROM windlass.bulk_task WHERE bulk = :bulk AND stage = 'walk' AND task <= :last) AS start
     CROSS JOIN LATERAL (SELECT child FROM windlass.edge WHERE parent = start.task ORDER BY child OFFSET 0) AS e
     CROSS JOIN LATERAL (SELECT state, reason FROM windlass.task WHERE id = e.child LIMIT 1) AS c
      LEFT JOIN LATERAL (SELECT task FROM windlass.bulk_task WHERE bulk = :bulk AND task = e.child LIMIT 1) AS m ON true
     WHERE c.state = 'cancelled' AND c.reason LIKE 'prerequisite % ended %'
       AND m.task IS NULL
     UNION
    SELECT e.child
      FROM below
     CROSS JOIN LATERAL (SELECT child FROM windlass.edge WHERE parent = below.id ORDER BY child OFFSET 0) AS e
     CROSS JOIN LATERAL (SELECT state, reason FROM windlass.task WHERE id = e.child LIMIT 1) AS c
      LEFT JOIN LATERAL (SELECT task FROM windlass.bulk_task WHERE bulk = :bulk AND task = e.child LIMIT 1) AS m ON true
     WHERE c.state = 'cancelled' AND c.reason LIKE 'prerequisite % ended %'
       AND m.task IS NULL
)
INSERT INTO windlass.bulk_task (bulk, task, chosen, stage)
SELECT :bulk, id, false, 'found' FROM (SELECT id FROM below LIMIT :limit) AS first_ones
RETURNING task;
