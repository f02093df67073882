-- cron: return one cron.
SELECT name, handler, schedule, timezone, misfire, args, queue, tenant, priority, starts, ends,
       fired, paused, paused_by, paused_why, at_run_time, version, due
  FROM cron WHERE name = :name;
