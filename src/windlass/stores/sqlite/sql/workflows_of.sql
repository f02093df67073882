-- workflows_of: return the workflows of tasks, and whether the sweep failed the task because of a cycle.
-- batch: id blob
SELECT id, workflow_tenant, workflow,
       state = 'failed' AND reason IS NOT NULL AND reason LIKE 'cycle of prerequisites: %'
  FROM task
 WHERE id = :id AND workflow IS NOT NULL;
