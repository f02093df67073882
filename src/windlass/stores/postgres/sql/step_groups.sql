-- step_groups: count the steps of a workflow between two of them by queue, handler and state.
SELECT t.queue, b.handler, t.state, count(*), min(b.submitted), min(t.claimed), max(t.finished)
  FROM (SELECT id, handler, submitted
          FROM windlass.task
         WHERE workflow = :workflow AND workflow_tenant = :tenant
           AND (submitted, id) > (:submitted::bigint, :id::uuid)
           AND (submitted, id) <= (:end::bigint, :end_id::uuid)
         ORDER BY submitted, id
         LIMIT 20000) AS b
 CROSS JOIN LATERAL (SELECT queue, state, claimed, finished FROM windlass.current_task WHERE id = b.id OFFSET 0) AS t
 GROUP BY t.queue, b.handler, t.state;
