-- add_taken_down: add to a retry what was cancelled because of tasks that it is about, as far down as the limit goes,
-- which stops the recursion. Fewer than that: there is nothing more below these.
WITH RECURSIVE below (id) AS (
    SELECT next.child
      FROM (SELECT task FROM windlass.bulk_task WHERE bulk = :bulk AND stage = 'walk' AND task <= :last) AS start
     CROSS JOIN LATERAL (
           SELECT e.child
             FROM windlass.edge AS e JOIN windlass.task AS c ON c.id = e.child
            WHERE e.parent = start.task AND c.state = 'cancelled' AND c.reason LIKE 'prerequisite % ended %'
              AND NOT EXISTS (SELECT FROM windlass.bulk_task AS m WHERE m.bulk = :bulk AND m.task = e.child)
            ORDER BY e.child LIMIT :limit) AS next
     UNION
    SELECT next.child
      FROM below
     CROSS JOIN LATERAL (
           SELECT e.child
             FROM windlass.edge AS e JOIN windlass.task AS c ON c.id = e.child
            WHERE e.parent = below.id AND c.state = 'cancelled' AND c.reason LIKE 'prerequisite % ended %'
              AND NOT EXISTS (SELECT FROM windlass.bulk_task AS m WHERE m.bulk = :bulk AND m.task = e.child)
            ORDER BY e.child LIMIT :limit) AS next
)
INSERT INTO windlass.bulk_task (bulk, task, chosen, stage)
SELECT :bulk, id, false, 'found' FROM (SELECT id FROM below LIMIT :limit) AS first_ones
RETURNING task;
