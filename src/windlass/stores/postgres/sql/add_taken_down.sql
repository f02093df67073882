-- add_taken_down: add to a retry the tasks that were cancelled because of its tasks, directly or through others, up to
-- :limit of them. If it adds fewer, there are no more below these. The reasons are those of core.graph.
-- LATERAL fixes the order of the joins, from a task to its edges to their tasks. Otherwise the server may start with all
-- cancelled tasks.
WITH RECURSIVE below (id) AS (
    SELECT e.child
      FROM (SELECT task FROM windlass.bulk_task WHERE bulk = :bulk AND stage = 'walk' AND task <= :last) AS start
     CROSS JOIN LATERAL (SELECT child FROM windlass.edge WHERE parent = start.task ORDER BY child OFFSET 0) AS e
     CROSS JOIN LATERAL (SELECT state, reason FROM windlass.task WHERE id = e.child LIMIT 1) AS c
      LEFT JOIN LATERAL (SELECT task FROM windlass.bulk_task WHERE bulk = :bulk AND task = e.child LIMIT 1) AS m ON true
     WHERE c.state = 'cancelled'
       AND (c.reason LIKE 'Prerequisite % failed.' OR c.reason LIKE 'Prerequisite % was cancelled.'
            OR c.reason LIKE 'Prerequisite % expired.' OR c.reason LIKE 'Prerequisite % was never submitted.')
       AND m.task IS NULL
     UNION
    SELECT e.child
      FROM below
     CROSS JOIN LATERAL (SELECT child FROM windlass.edge WHERE parent = below.id ORDER BY child OFFSET 0) AS e
     CROSS JOIN LATERAL (SELECT state, reason FROM windlass.task WHERE id = e.child LIMIT 1) AS c
      LEFT JOIN LATERAL (SELECT task FROM windlass.bulk_task WHERE bulk = :bulk AND task = e.child LIMIT 1) AS m ON true
     WHERE c.state = 'cancelled'
       AND (c.reason LIKE 'Prerequisite % failed.' OR c.reason LIKE 'Prerequisite % was cancelled.'
            OR c.reason LIKE 'Prerequisite % expired.' OR c.reason LIKE 'Prerequisite % was never submitted.')
       AND m.task IS NULL
)
INSERT INTO windlass.bulk_task (bulk, task, chosen, stage)
SELECT :bulk, id, false, 'found' FROM (SELECT id FROM below LIMIT :limit) AS first_ones
RETURNING task;
