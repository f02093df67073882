-- finished_before: return a page of tasks whose retention is over, without dead letters.
SELECT page.id, page.finished, t.tenant, t.workflow
  FROM (SELECT id, finished
          FROM ((SELECT id, finished FROM windlass.task
                  WHERE finished < :limit_time AND (finished, id) > (:finished, :id::uuid)
                    AND state IN ('cancelled', 'expired')
                  ORDER BY finished, id LIMIT :limit)
                 UNION ALL
                (SELECT id, finished FROM windlass.completed
                  WHERE finished < :limit_time AND (finished, id) > (:finished, :id::uuid)
                  ORDER BY finished, id LIMIT :limit)) AS both_tables
         ORDER BY finished, id
         LIMIT :limit) AS page
 CROSS JOIN LATERAL (SELECT tenant, workflow FROM windlass.task WHERE task.id = page.id OFFSET 0) AS t
 ORDER BY page.finished, page.id;
