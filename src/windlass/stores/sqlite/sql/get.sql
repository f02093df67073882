-- get: return a whole task by its id.
-- batch: id blob
SELECT t.id, t.queue, t.tenant, t.state, t.band, t.rank, t.tie, t.due, t.expires, t.waiting, t.on_failure, t.fence,
       t.session, t.claimed, t.finished, t.attempts, t.crashes, t.losses, t.generation, t.cancel_requested,
       t.cancel_by, t.reason, t.wait,
       t.handler, t.args, t.rules, t.workflow, t.key, t.priority, t.deadline, t.first_due, t.submitted, r.value
  FROM current_task AS t
  LEFT JOIN result AS r USING (id)
 WHERE t.id = :id;
