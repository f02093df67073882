-- finished_before: return a page of tasks whose retention is over, without dead letters.
SELECT page.id, page.finished, t.tenant, t.workflow
  FROM (SELECT * FROM (SELECT id, finished FROM task
                        WHERE finished < :limit_time AND (finished, id) > (:finished, :id)
                          AND state IN ('cancelled', 'expired')
                        ORDER BY finished, id LIMIT :limit)
         UNION ALL
        SELECT * FROM (SELECT id, finished FROM completed
                        WHERE finished < :limit_time AND (finished, id) > (:finished, :id)
                        ORDER BY finished, id LIMIT :limit)
         ORDER BY 2, 1
         LIMIT :limit) AS page
 CROSS JOIN task AS t ON t.id = page.id
 ORDER BY page.finished, page.id;
