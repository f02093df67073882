-- find: return the tasks between two of them, newest first, that meet some conditions. A NULL condition is ignored.
SELECT t.id, t.queue, t.tenant, t.state, t.band, t.rank, t.tie, t.due, t.expires, t.waiting, t.on_failure, t.fence,
       t.session, t.claimed, t.finished, t.attempts, t.crashes, t.losses, t.generation, t.cancel_requested,
       t.cancel_by, t.reason, t.wait,
       t.handler, t.args, t.rules, t.workflow, t.key, t.priority, t.deadline, t.first_due, t.submitted, r.value
  FROM (SELECT id, submitted
          FROM windlass.task
         WHERE (submitted, id) < (:submitted::bigint, :id::uuid)
           AND (submitted, id) >= (:end::bigint, :end_id::uuid)
         ORDER BY submitted DESC, id DESC
         -- The end condition applies first. The constant makes the planner expect few rows to join.
         LIMIT 20000) AS b
 CROSS JOIN LATERAL (SELECT * FROM windlass.current_task WHERE current_task.id = b.id OFFSET 0) AS t
  LEFT JOIN LATERAL (SELECT value FROM windlass.result WHERE result.id = b.id OFFSET 0) AS r ON true
 WHERE (:states::text[] IS NULL OR t.state = ANY (:states::text[]))
   AND (:queues::text[] IS NULL OR t.queue = ANY (:queues::text[]))
   AND (:tenants::text[] IS NULL OR t.tenant = ANY (:tenants::text[]))
   AND (:workflows::text[] IS NULL OR t.workflow = ANY (:workflows::text[]))
   AND (:handlers::text[] IS NULL OR t.handler = ANY (:handlers::text[]))
 -- By the columns of `b`, which come in this order. So the rest of the tasks is not read after the limit.
 ORDER BY b.submitted DESC, b.id DESC
 LIMIT :limit;
