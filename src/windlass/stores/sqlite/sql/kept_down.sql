-- kept_down: return tasks that were added to a retry, in id order, each with whether a prerequisite ended badly or
-- never came and is not retried. Completed ones have no `finished` in `task`.
SELECT m.task, EXISTS (
       SELECT 1 FROM edge AS e
         LEFT JOIN task AS p ON p.id = e.parent
        WHERE e.child = m.task
          AND CASE WHEN p.id IS NULL
                   THEN e.resolved = 1 AND NOT EXISTS (SELECT 1 FROM workflow AS w WHERE w.id = e.parent)
                   ELSE p.finished IS NOT NULL
                        AND NOT EXISTS (SELECT 1 FROM bulk_task AS o WHERE o.bulk = :bulk AND o.task = e.parent)
               END)
  FROM bulk_task AS m
 WHERE m.bulk = :bulk AND m.task > :after AND m.chosen = 0
 ORDER BY m.task LIMIT :limit;
