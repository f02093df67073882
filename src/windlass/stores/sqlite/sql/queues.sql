-- queues: return the settings of all configured queues.
SELECT name, strategy, horizon, step, paused, paused_by, paused_why, paused_until, max_waiting, weight, fair
  FROM queue ORDER BY name;
