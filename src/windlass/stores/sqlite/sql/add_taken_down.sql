-- add_taken_down: add to a retry the tasks that were cancelled because of its tasks, directly or through others, up to
-- :limit of them. If it adds fewer, there are no more below these. The reasons are those of core.graph.
WITH RECURSIVE below (id) AS (
    SELECT e.child
      FROM bulk_task AS start CROSS JOIN edge AS e CROSS JOIN task AS c
     WHERE start.bulk = :bulk AND start.stage = 'walk' AND start.task <= :last
       AND e.parent = start.task AND c.id = e.child
       AND c.state = 'cancelled'
       AND (c.reason GLOB 'Prerequisite * failed.' OR c.reason GLOB 'Prerequisite * was cancelled.'
            OR c.reason GLOB 'Prerequisite * expired.' OR c.reason GLOB 'Prerequisite * was never submitted.')
       AND NOT EXISTS (SELECT 1 FROM bulk_task AS m WHERE m.bulk = :bulk AND m.task = e.child)
     UNION
    SELECT e.child
      FROM below CROSS JOIN edge AS e CROSS JOIN task AS c
     WHERE e.parent = below.id AND c.id = e.child
       AND c.state = 'cancelled'
       AND (c.reason GLOB 'Prerequisite * failed.' OR c.reason GLOB 'Prerequisite * was cancelled.'
            OR c.reason GLOB 'Prerequisite * expired.' OR c.reason GLOB 'Prerequisite * was never submitted.')
       AND NOT EXISTS (SELECT 1 FROM bulk_task AS m WHERE m.bulk = :bulk AND m.task = e.child)
)
INSERT INTO bulk_task (bulk, task, chosen, stage)
SELECT :bulk, id, 0, 'found' FROM (SELECT id FROM below LIMIT :limit)
RETURNING task;
