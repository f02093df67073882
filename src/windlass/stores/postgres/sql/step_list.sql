-- step_list: return steps of a workflow between two of them, in submit order, in some states or in any.
SELECT b.id, b.key, b.handler, t.queue, t.state, b.submitted, t.claimed, t.finished, t.reason
  FROM (SELECT id, key, handler, submitted
          FROM windlass.task
         WHERE workflow = :workflow AND workflow_tenant = :tenant
           AND (submitted, id) > (:submitted::bigint, :id::uuid)
           AND (submitted, id) <= (:end::bigint, :end_id::uuid)
         ORDER BY submitted, id
         -- The end condition applies first. The constant makes the planner expect few rows to join.
         LIMIT 20000) AS b
 CROSS JOIN LATERAL (SELECT queue, state, claimed, finished, reason FROM windlass.current_task WHERE id = b.id OFFSET 0) AS t
 WHERE :states::text[] IS NULL OR t.state = ANY (:states::text[])
 ORDER BY b.submitted, b.id
 LIMIT :limit;
