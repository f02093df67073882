-- workflow_is_busy: return a row if a task of the workflow is unfinished.
SELECT 1
  FROM task AS b JOIN current_task AS t USING (id)
 WHERE b.workflow = :workflow AND b.workflow_tenant = :tenant AND t.finished IS NULL
 LIMIT 1;
