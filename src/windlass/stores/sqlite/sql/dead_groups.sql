-- dead_groups: group the newest failed tasks by their error, handler and tenant, and list the newest tasks of each error.
-- A row with an id is one of those newest tasks, one without is a group, and the one without a group counts all
-- failed tasks, up to one more than were looked at.
WITH looked AS MATERIALIZED (
    SELECT id, error_group, finished, queue, tenant
      FROM task
     WHERE state = 'failed'
     ORDER BY finished DESC, id DESC
     LIMIT :looked_at
), matching AS MATERIALIZED (
    SELECT id, error_group, finished, tenant, (SELECT handler FROM task AS b WHERE b.id = looked.id) AS handler,
           row_number() OVER (PARTITION BY error_group ORDER BY finished DESC, id DESC) AS nth
      FROM looked
     WHERE (:queue IS NULL OR queue = :queue)
       AND (:tenant IS NULL OR tenant = :tenant)
)
SELECT error_group, handler, tenant, count(*) AS tasks, min(finished) AS first, max(finished) AS last, NULL AS id
  FROM matching
 GROUP BY error_group, handler, tenant
 UNION ALL
SELECT error_group, handler, tenant, 1, finished, finished, id FROM matching WHERE nth <= :newest_of_each
 UNION ALL
SELECT NULL, NULL, NULL, count(*), 0, 0, NULL FROM (SELECT 1 FROM task WHERE state = 'failed' ORDER BY finished, id LIMIT :looked_at + 1) AS seen;
