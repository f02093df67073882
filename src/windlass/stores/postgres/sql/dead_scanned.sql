-- dead_scanned: where a look at so many failed tasks ends, newest first, and the task behind it, if there is one.
SELECT finished, id
  FROM windlass.task
 WHERE state = 'failed' AND (finished, id) < (:finished::bigint, :id::uuid)
 ORDER BY finished DESC, id DESC
 LIMIT 2 OFFSET :skip;
