-- find: return the tasks between two of them, newest first, that meet some conditions. A NULL condition is ignored.
SELECT t.id, t.queue, t.tenant, t.state, t.band, t.rank, t.tie, t.due, t.expires, t.waiting, t.on_failure, t.fence,
       t.session, t.claimed, t.finished, t.attempts, t.crashes, t.losses, t.generation, t.cancel_requested,
       t.cancel_by, t.reason, t.wait,
       t.handler, t.args, t.rules, t.workflow, t.key, t.priority, t.deadline, t.first_due, t.submitted, r.value
  FROM current_task AS t
  LEFT JOIN result AS r USING (id)
 WHERE (t.submitted, t.id) < (:submitted, :id)
   AND (t.submitted, t.id) >= (:end, :end_id)
   AND (:states IS NULL OR t.state IN (SELECT value FROM json_each(:states)))
   AND (:queues IS NULL OR t.queue IN (SELECT value FROM json_each(:queues)))
   AND (:tenants IS NULL OR t.tenant IN (SELECT value FROM json_each(:tenants)))
   AND (:workflows IS NULL OR t.workflow IN (SELECT value FROM json_each(:workflows)))
   AND (:handlers IS NULL OR t.handler IN (SELECT value FROM json_each(:handlers)))
 ORDER BY t.submitted DESC, t.id DESC
 LIMIT :limit;
