-- workflow_is_busy: return a row if a task of the workflow is unfinished. OFFSET 0 as in `resolved_edges`.
SELECT 1
  FROM windlass.task AS b
 CROSS JOIN LATERAL (SELECT finished FROM windlass.current_task WHERE current_task.id = b.id OFFSET 0) AS t
 WHERE b.workflow = :workflow AND b.workflow_tenant = :tenant AND t.finished IS NULL
 LIMIT 1;
