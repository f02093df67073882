-- workflows_of: return the workflows of tasks, and whether the sweep failed the task because of a cycle.
-- batch: id uuid
SELECT i.id, t.workflow_tenant, t.workflow,
       t.state = 'failed' AND t.reason IS NOT NULL AND t.reason LIKE 'cycle of prerequisites: %'
  FROM unnest(:id::uuid[]) AS i (id)
 CROSS JOIN LATERAL (SELECT state, reason, workflow_tenant, workflow FROM windlass.task WHERE task.id = i.id OFFSET 0) AS t
 WHERE t.workflow IS NOT NULL;
