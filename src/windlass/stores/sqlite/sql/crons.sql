-- crons: return all published crons.
SELECT name, handler, schedule, timezone, misfire, args, fired, paused, paused_by, paused_why
  FROM cron ORDER BY name;
