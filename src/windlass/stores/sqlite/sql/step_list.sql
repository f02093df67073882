-- step_list: return steps of a workflow between two of them, in submit order, in some states or in any.
SELECT b.id, b.key, b.handler, t.queue, t.state, b.submitted, t.claimed, t.finished, t.reason
  FROM task AS b
  JOIN current_task AS t USING (id)
 WHERE b.workflow = :workflow AND b.workflow_tenant = :tenant
   AND (b.submitted, b.id) > (:submitted, :id)
   AND (b.submitted, b.id) <= (:end, :end_id)
   AND (:states IS NULL OR t.state IN (SELECT value FROM json_each(:states)))
 ORDER BY b.submitted, b.id
 LIMIT :limit;
