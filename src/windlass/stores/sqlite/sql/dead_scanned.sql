-- dead_scanned: where a look at so many failed tasks ends, newest first, and the task behind it, if there is one.
SELECT finished, id
  FROM task
 WHERE state = 'failed' AND (finished, id) < (:finished, :id)
 ORDER BY finished DESC, id DESC
 LIMIT 2 OFFSET :skip;
