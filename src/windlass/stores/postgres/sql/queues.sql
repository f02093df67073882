-- queues: return the settings of all configured queues.
SELECT name, strategy, horizon, step, paused, paused_by, paused_why, max_waiting, max_leased, weight, fair
  FROM windlass.queue ORDER BY name;
