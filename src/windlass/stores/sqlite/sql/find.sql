-- find: return the tasks between two of them, newest first, that meet some conditions. A NULL condition is ignored.
SELECT t.id, t.queue, t.tenant, t.state, t.band, t.rank, t.tie, t.due, t.expires, t.waiting, t.on_failure, t.fence,
       t.session, t.claimed, t.finished, t.attempts, t.crashes, t.losses, t.generation, t.cancel_requested,
       t.cancel_by, t.reason,
       b.handler, b.args, b.rules, b.workflow, b.key, b.priority, b.deadline, b.first_due, b.submitted, r.value
  FROM body AS b
  JOIN task AS t USING (id)
  LEFT JOIN result AS r USING (id)
 WHERE (b.submitted, b.id) < (:submitted, :id)
   AND (b.submitted, b.id) >= (:end, :end_id)
   AND (:states IS NULL OR t.state IN (SELECT value FROM json_each(:states)))
   AND (:queues IS NULL OR t.queue IN (SELECT value FROM json_each(:queues)))
   AND (:tenants IS NULL OR t.tenant IN (SELECT value FROM json_each(:tenants)))
   AND (:workflows IS NULL OR b.workflow IN (SELECT value FROM json_each(:workflows)))
   AND (:handlers IS NULL OR b.handler IN (SELECT value FROM json_each(:handlers)))
 ORDER BY b.submitted DESC, b.id DESC
 LIMIT :limit;
