-- get: return whole tasks by id.
-- batch: id uuid
SELECT t.id, t.queue, t.tenant, t.state, t.band, t.rank, t.tie, t.due, t.expires, t.waiting, t.on_failure, t.fence,
       t.session, t.claimed, t.finished, t.attempts, t.crashes, t.losses, t.generation, t.cancel_requested,
       t.cancel_by, t.reason,
       b.handler, b.args, b.rules, b.workflow, b.key, b.priority, b.deadline, b.first_due, b.submitted, r.value
  FROM windlass.task AS t
  JOIN windlass.body AS b USING (id)
  LEFT JOIN windlass.result AS r USING (id)
 WHERE t.id = ANY (:id::uuid[]);
