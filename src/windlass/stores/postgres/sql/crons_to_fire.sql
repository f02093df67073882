-- crons_to_fire: return the crons of some handlers that are in code, or due and not paused.
SELECT name, handler, schedule, timezone, misfire, args, queue, tenant, priority, starts, ends,
       fired, paused, paused_by, paused_why, at_run_time, version, due
  FROM windlass.cron
 WHERE NOT at_run_time AND handler = ANY (:handlers::text[])
UNION ALL
SELECT name, handler, schedule, timezone, misfire, args, queue, tenant, priority, starts, ends,
       fired, paused, paused_by, paused_why, at_run_time, version, due
  FROM windlass.cron
 WHERE due <= (SELECT windlass.clock(:now)) AND at_run_time AND NOT paused AND handler = ANY (:handlers::text[]);
