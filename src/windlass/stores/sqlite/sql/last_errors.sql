-- last_errors: the error that ended a failed task, if an attempt did, and the reason.
-- batch: id blob
SELECT t.id, t.reason, (SELECT max(error) FROM attempt AS a WHERE a.task = t.id AND a.ended = t.finished) AS error
  FROM task AS t
 WHERE t.id = :id;
