-- find: a page of tasks, newest first. A condition that is null holds for every task.
SELECT t.id, t.queue, t.tenant, t.state, t.band, t.rank, t.tie, t.due, t.expires, t.waiting, t.on_failure, t.fence,
       t.session, t.claimed, t.finished, t.attempts, t.crashes, t.losses, t.generation, t.cancel_requested,
       t.cancel_by, t.reason,
       b.handler, b.args, b.rules, b.workflow, b.key, b.priority, b.deadline, b.first_due, b.submitted, r.value
  FROM windlass.body AS b
  JOIN windlass.task AS t USING (id)
  LEFT JOIN windlass.result AS r USING (id)
 WHERE (:states::text[] IS NULL OR t.state = ANY (:states::text[]))
   AND (:queue::text IS NULL OR t.queue = :queue::text)
   AND (:tenant::text IS NULL OR t.tenant = :tenant::text)
   AND (:workflow::text IS NULL OR b.workflow = :workflow::text)
   AND (:handler::text IS NULL OR b.handler = :handler::text)
   AND (:submitted::bigint IS NULL OR (b.submitted, b.id) < (:submitted::bigint, :id::uuid))
 ORDER BY b.submitted DESC, b.id DESC
 LIMIT :limit;
