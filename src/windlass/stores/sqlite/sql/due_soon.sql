-- due_soon: how many tasks of some queues come due in which second from now; only the first of all are looked at.
SELECT queue, state, max(0, (due - :now + 999999) / 1000000) AS seconds, count(*)
  FROM (SELECT queue, state, due FROM task
         WHERE state IN ('scheduled', 'retrying') AND due <= :now + :ahead
         ORDER BY due LIMIT :limit)
 WHERE queue IN (SELECT value FROM json_each(:queues))
 GROUP BY queue, state, seconds;
