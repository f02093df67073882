-- dead_groups: group the newest failed tasks by their error, handler and tenant, and list the newest tasks of each error.
-- A row with an id is one of those newest tasks, one without is a group, and the one without a group counts all
-- failed tasks, up to one more than were looked at. Handlers are looked up in a subquery, which no statistics turn into a
-- join that reads a whole table.
WITH looked AS MATERIALIZED (
    SELECT id, error_group, finished, queue, tenant
      FROM windlass.task
     WHERE state = 'failed'
     ORDER BY finished DESC, id DESC
     LIMIT :looked_at::bigint
), matching AS MATERIALIZED (
    SELECT id, error_group, finished, tenant, (SELECT handler FROM windlass.task AS b WHERE b.id = looked.id) AS handler,
           row_number() OVER (PARTITION BY error_group ORDER BY finished DESC, id DESC) AS nth
      FROM looked
     WHERE (:queue::text IS NULL OR queue = :queue::text)
       AND (:tenant::text IS NULL OR tenant = :tenant::text)
)
SELECT error_group, handler, tenant, count(*) AS tasks, min(finished) AS first, max(finished) AS last, NULL::uuid AS id
  FROM matching
 GROUP BY error_group, handler, tenant
 UNION ALL
SELECT error_group, handler, tenant, 1, finished, finished, id FROM matching WHERE nth <= :newest_of_each
 UNION ALL
SELECT NULL, NULL, NULL, count(*), 0, 0, NULL::uuid
  FROM (SELECT FROM windlass.task WHERE state = 'failed' ORDER BY finished, id LIMIT :looked_at::bigint + 1) AS seen;
