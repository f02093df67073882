-- old_unique: lock the rows of unique tasks that may be free, and return the state of the task that holds each.
SELECT l.id, c.state
  FROM windlass.unique_lock AS l
  LEFT JOIN LATERAL (SELECT state FROM windlass.current_task WHERE current_task.id = l.task OFFSET 0) AS c ON true
 WHERE l.look <= windlass.clock(:now)
 ORDER BY l.look
 LIMIT :limit
   FOR UPDATE OF l SKIP LOCKED;
