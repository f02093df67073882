-- crons: every cron that was ever published.
SELECT name, handler, schedule, timezone, misfire, args, fired, paused, paused_by, paused_why
  FROM cron ORDER BY name;
