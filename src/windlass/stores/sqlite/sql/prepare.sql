-- prepare: what a submit needs to know first: the present moment, and the settings of its queues.
SELECT clock.now, 1, q.name, q.strategy, q.horizon, q.step, q.paused, q.paused_by, q.paused_why,
       q.max_waiting, q.max_leased, q.weight, q.fair
  FROM (SELECT :now AS now) AS clock
  LEFT JOIN queue AS q ON q.name IN (SELECT value FROM json_each(:queues));
