-- due_soon: how many tasks of some queues come due in which second from now; only the first of all are looked at.
SELECT queue, state, greatest(0, ceil((due - (SELECT windlass.clock(:now))) / 1000000.0))::bigint AS seconds, count(*)
  FROM (SELECT queue, state, due FROM windlass.task
         WHERE state IN ('scheduled', 'retrying') AND due <= (SELECT windlass.clock(:now)) + :ahead::bigint
         ORDER BY due LIMIT :limit) AS next
 WHERE queue = ANY (:queues::text[])
 GROUP BY queue, state, seconds;
