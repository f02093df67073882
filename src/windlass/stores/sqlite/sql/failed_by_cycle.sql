-- failed_by_cycle: return the workflows of those of these tasks that the sweep failed because of a cycle.
-- batch: id blob
SELECT b.workflow_tenant, b.workflow
  FROM task AS t JOIN task AS b ON b.id = t.id
 WHERE t.id = :id AND t.state = 'failed' AND t.reason LIKE 'cycle of prerequisites: %' AND b.workflow IS NOT NULL;
