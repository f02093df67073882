-- get: return whole tasks by id.
-- batch: id uuid
SELECT t.id, t.queue, t.tenant, t.state, t.band, t.rank, t.tie, t.due, t.expires, t.waiting, t.on_failure, t.fence,
       t.session, t.claimed, t.finished, t.attempts, t.crashes, t.losses, t.generation, t.cancel_requested,
       t.cancel_by, t.reason, t.wait,
       t.handler, t.args, t.rules, t.workflow, t.key, t.priority, t.deadline, t.first_due, t.submitted, r.value
  FROM unnest(:id::uuid[]) AS i (id)
 CROSS JOIN LATERAL (SELECT * FROM windlass.current_task WHERE current_task.id = i.id OFFSET 0) AS t
  LEFT JOIN LATERAL (SELECT value FROM windlass.result WHERE result.id = i.id OFFSET 0) AS r ON true;
