-- find: a page of tasks, newest first. A condition that is null holds for every task.
SELECT t.id, t.queue, t.tenant, t.state, t.band, t.rank, t.tie, t.due, t.expires, t.waiting, t.on_failure, t.fence,
       t.session, t.claimed, t.finished, t.attempts, t.crashes, t.losses, t.generation, t.cancel_requested,
       t.cancel_by, t.reason,
       b.handler, b.args, b.rules, b.workflow, b.key, b.priority, b.deadline, b.first_due, b.submitted, r.value
  FROM body AS b
  JOIN task AS t USING (id)
  LEFT JOIN result AS r USING (id)
 WHERE (:states IS NULL OR t.state IN (SELECT value FROM json_each(:states)))
   AND (:queue IS NULL OR t.queue = :queue)
   AND (:tenant IS NULL OR t.tenant = :tenant)
   AND (:workflow IS NULL OR b.workflow = :workflow)
   AND (:handler IS NULL OR b.handler = :handler)
   AND (:submitted IS NULL OR (b.submitted, b.id) < (:submitted, :id))
 ORDER BY b.submitted DESC, b.id DESC
 LIMIT :limit;
