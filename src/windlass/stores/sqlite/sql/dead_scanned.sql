-- dead_scanned: return the last of the next failed tasks, newest first, and the one after it, if there is one.
SELECT finished, id
  FROM task
 WHERE state = 'failed' AND (finished, id) < (:finished, :id)
 ORDER BY finished DESC, id DESC
 LIMIT 2 OFFSET :skip;
