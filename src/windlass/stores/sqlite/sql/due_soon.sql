-- due_soon: count the tasks of some queues by the second in which they become due, among the next ones only.
SELECT queue, state, max(0, (due - :now + 999999) / 1000000) AS seconds, count(*)
  FROM (SELECT queue, state, due FROM task
         WHERE state IN ('scheduled', 'retrying') AND due <= :now + :ahead
         ORDER BY due LIMIT :limit)
 WHERE queue IN (SELECT value FROM json_each(:queues))
 GROUP BY queue, state, seconds;
