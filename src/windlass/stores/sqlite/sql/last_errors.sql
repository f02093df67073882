-- last_errors: the error that ended a failed task, if an attempt did, and the reason.
-- batch: id blob
SELECT id, reason, (SELECT max(error) FROM attempt AS a WHERE a.task = task.id AND a.ended = task.finished) AS error
  FROM task
 WHERE id = :id;
