-- workflow_list: return submits of workflows, newest first, each with whether it is the latest of its workflow and when
-- the first was.
-- A unary plus makes SQLite use the index for all columns.
WITH RECURSIVE walk (id, number) AS (
    SELECT (SELECT id FROM task
             WHERE workflow IS NOT NULL AND (submitted, workflow, workflow_tenant) < (:submitted, :workflow, :tenant)
             ORDER BY submitted DESC, workflow DESC, workflow_tenant DESC LIMIT 1), 1
     UNION ALL
    SELECT (SELECT id FROM task
             WHERE workflow IS NOT NULL
               AND (submitted, workflow, workflow_tenant) < (+b.submitted, +b.workflow, +b.workflow_tenant)
             ORDER BY submitted DESC, workflow DESC, workflow_tenant DESC LIMIT 1), walk.number + 1
      FROM walk JOIN task AS b USING (id)
     WHERE walk.number < :limit
)
SELECT b.submitted, b.workflow, b.workflow_tenant,
       NOT EXISTS (SELECT 1 FROM task AS later
                    WHERE later.workflow = b.workflow AND later.workflow_tenant = b.workflow_tenant
                      AND later.submitted > b.submitted),
       (SELECT min(first.submitted) FROM task AS first
         WHERE first.workflow = b.workflow AND first.workflow_tenant = b.workflow_tenant)
  FROM walk JOIN task AS b USING (id);
