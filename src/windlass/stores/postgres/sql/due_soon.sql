-- due_soon: count the tasks of some queues by the second in which they become due, among the next ones only.
SELECT queue, state, greatest(0, ceil((due - (SELECT windlass.clock(:now))) / 1000000.0))::bigint AS seconds, count(*)
  FROM (SELECT queue, state, due FROM windlass.task
         WHERE state IN ('scheduled', 'retrying') AND due <= (SELECT windlass.clock(:now)) + :ahead::bigint
         ORDER BY due LIMIT :limit) AS next
 WHERE queue = ANY (:queues::text[])
 GROUP BY queue, state, seconds;
