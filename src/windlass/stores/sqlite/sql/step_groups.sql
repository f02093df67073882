-- step_groups: count the steps of a workflow between two of them by queue, handler and state.
SELECT t.queue, b.handler, t.state, count(*), min(b.submitted), min(t.claimed), max(t.finished)
  FROM task AS b
  JOIN current_task AS t USING (id)
 WHERE b.workflow = :workflow AND b.workflow_tenant = :tenant
   AND (b.submitted, b.id) > (:submitted, :id)
   AND (b.submitted, b.id) <= (:end, :end_id)
 GROUP BY t.queue, b.handler, t.state;
