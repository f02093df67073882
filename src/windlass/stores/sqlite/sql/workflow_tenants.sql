-- workflow_tenants: return the tenants that have a workflow of this name.
WITH RECURSIVE walk (tenant, number) AS (
    SELECT (SELECT min(workflow_tenant) FROM task WHERE workflow = :workflow), 1
     UNION ALL
    SELECT (SELECT min(workflow_tenant) FROM task WHERE workflow = :workflow AND workflow_tenant > walk.tenant), number + 1
      FROM walk
     WHERE walk.tenant IS NOT NULL AND walk.number < :limit
)
SELECT tenant FROM walk WHERE tenant IS NOT NULL;
