-- kept_down: return tasks that were added to a retry, in id order, each with whether a prerequisite ended badly or
-- never came and is not retried. Completed ones have no `finished` in `task`. For the inner LIMIT see `bulk_page`.
SELECT m.task, kept.found IS NOT NULL
  FROM (SELECT task
          FROM (SELECT task FROM windlass.bulk_task
                 WHERE bulk = :bulk AND task > :after AND NOT chosen
                 ORDER BY bulk, task LIMIT 500) AS page
         LIMIT :limit) AS m
  LEFT JOIN LATERAL (
       SELECT true AS found
         FROM windlass.edge AS e
         LEFT JOIN windlass.task AS p ON p.id = e.parent
        WHERE e.child = m.task
          AND CASE WHEN p.id IS NULL
                   THEN e.resolved AND NOT EXISTS (SELECT FROM windlass.workflow AS w WHERE w.id = e.parent)
                   ELSE p.finished IS NOT NULL
                        AND NOT EXISTS (SELECT FROM windlass.bulk_task AS o WHERE o.bulk = :bulk AND o.task = e.parent)
               END
        LIMIT 1) AS kept ON true
 ORDER BY m.task;
