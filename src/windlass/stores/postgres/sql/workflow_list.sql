-- workflow_list: return submits of workflows, newest first, each with whether it is the latest of its workflow and when
-- the first was.
WITH RECURSIVE walk AS (
    (SELECT submitted, workflow, workflow_tenant, 1 AS number
       FROM windlass.task
      WHERE workflow IS NOT NULL
        AND (submitted, workflow, workflow_tenant) < (:submitted::bigint, :workflow::text, :tenant::text)
      ORDER BY submitted DESC, workflow DESC, workflow_tenant DESC LIMIT 1)
     UNION ALL
    SELECT next.submitted, next.workflow, next.workflow_tenant, walk.number + 1
      FROM walk CROSS JOIN LATERAL
           (SELECT submitted, workflow, workflow_tenant
              FROM windlass.task
             WHERE workflow IS NOT NULL
               AND (submitted, workflow, workflow_tenant) < (walk.submitted, walk.workflow, walk.workflow_tenant)
             ORDER BY submitted DESC, workflow DESC, workflow_tenant DESC LIMIT 1) AS next
     WHERE walk.number < :limit
)
SELECT walk.submitted, walk.workflow, walk.workflow_tenant,
       (SELECT submitted FROM windlass.task
         WHERE workflow = walk.workflow AND workflow_tenant = walk.workflow_tenant
         ORDER BY submitted DESC LIMIT 1) = walk.submitted,
       (SELECT submitted FROM windlass.task
         WHERE workflow = walk.workflow AND workflow_tenant = walk.workflow_tenant
         ORDER BY submitted LIMIT 1)
  FROM walk;
