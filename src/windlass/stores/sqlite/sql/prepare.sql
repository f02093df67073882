-- prepare: return the current time and the settings of the queues of a submit.
SELECT clock.now, 1, q.name, q.strategy, q.horizon, q.step, q.paused, q.paused_by, q.paused_why,
       q.paused_until, q.max_waiting, q.weight, q.fair
  FROM (SELECT :now AS now) AS clock
  LEFT JOIN queue AS q ON q.name IN (SELECT value FROM json_each(:queues));
