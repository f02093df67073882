-- publish_crons: insert crons, and update those that differ. Returns the names of both. `fired` and the pause stay, and so
-- do crons that were created at run time.
-- batch: name text, handler text, schedule text, timezone text, misfire text, args text
INSERT INTO cron (name, handler, schedule, timezone, misfire, args, version)
VALUES (:name, :handler, :schedule, :timezone, :misfire, :args, :now)
    ON CONFLICT (name) DO UPDATE
   SET handler = excluded.handler, schedule = excluded.schedule, timezone = excluded.timezone,
       misfire = excluded.misfire, args = excluded.args, version = max(cron.version + 1, excluded.version)
 WHERE NOT cron.at_run_time
   AND (cron.handler, cron.schedule, cron.timezone, cron.misfire, cron.args)
       IS NOT
       (excluded.handler, excluded.schedule, excluded.timezone, excluded.misfire, excluded.args)
RETURNING name;
