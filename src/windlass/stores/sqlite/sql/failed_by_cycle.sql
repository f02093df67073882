-- failed_by_cycle: the workflow of this task, if a sweep has failed it because it waited for itself through others.
-- batch: id blob
SELECT b.workflow_tenant, b.workflow
  FROM task AS t JOIN body AS b ON b.id = t.id
 WHERE t.id = :id AND t.state = 'failed' AND t.reason LIKE 'cycle of prerequisites: %' AND b.workflow IS NOT NULL;
