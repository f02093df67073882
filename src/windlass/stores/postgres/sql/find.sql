-- find: return the tasks between two of them, newest first, that meet some conditions. A NULL condition is ignored.
SELECT t.id, t.queue, t.tenant, t.state, t.band, t.rank, t.tie, t.due, t.expires, t.waiting, t.on_failure, t.fence,
       t.session, t.claimed, t.finished, t.attempts, t.crashes, t.losses, t.generation, t.cancel_requested,
       t.cancel_by, t.reason,
       b.handler, b.args, b.rules, b.workflow, b.key, b.priority, b.deadline, b.first_due, b.submitted, r.value
  FROM (SELECT *
          FROM windlass.body
         WHERE (submitted, id) < (:submitted::bigint, :id::uuid)
           AND (submitted, id) >= (:end::bigint, :end_id::uuid)
         ORDER BY submitted DESC, id DESC
         -- The end condition applies first. The constant makes the planner expect few rows to join.
         LIMIT 20000) AS b
  JOIN windlass.task AS t USING (id)
  LEFT JOIN windlass.result AS r USING (id)
 WHERE (:states::text[] IS NULL OR t.state = ANY (:states::text[]))
   AND (:queues::text[] IS NULL OR t.queue = ANY (:queues::text[]))
   AND (:tenants::text[] IS NULL OR t.tenant = ANY (:tenants::text[]))
   AND (:workflows::text[] IS NULL OR b.workflow = ANY (:workflows::text[]))
   AND (:handlers::text[] IS NULL OR b.handler = ANY (:handlers::text[]))
 ORDER BY b.submitted DESC, b.id DESC
 LIMIT :limit;
