-- old_unique: return the locks of unique tasks that may be free, and the state of the task that holds each.
SELECT l.id, (SELECT state FROM current_task WHERE current_task.id = l.task)
  FROM unique_lock AS l
 WHERE l.look <= :now
 ORDER BY l.look
 LIMIT :limit;
