-- workflow_tenants: return the tenants that have a workflow of this name.
WITH RECURSIVE walk AS (
    SELECT (SELECT workflow_tenant FROM windlass.task
             WHERE workflow = :workflow ORDER BY workflow_tenant LIMIT 1) AS tenant, 1 AS number
     UNION ALL
    SELECT (SELECT workflow_tenant FROM windlass.task
             WHERE workflow = :workflow AND workflow_tenant > walk.tenant
             ORDER BY workflow_tenant LIMIT 1), number + 1
      FROM walk
     WHERE walk.tenant IS NOT NULL AND walk.number < :limit
)
SELECT tenant FROM walk WHERE tenant IS NOT NULL;
