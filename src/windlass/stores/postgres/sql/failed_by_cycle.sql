-- failed_by_cycle: return the workflows of those of these tasks that the sweep failed because of a cycle.
-- batch: id uuid
SELECT DISTINCT b.workflow_tenant, b.workflow
  FROM unnest(:id::uuid[]) AS i (id)
 CROSS JOIN LATERAL (SELECT state, reason FROM windlass.task WHERE task.id = i.id OFFSET 0) AS t
 CROSS JOIN LATERAL (SELECT workflow_tenant, workflow FROM windlass.task WHERE task.id = i.id OFFSET 0) AS b
 WHERE t.state = 'failed' AND t.reason LIKE 'cycle of prerequisites: %' AND b.workflow IS NOT NULL;
