-- publish_crons: make crons known, or known anew. What was fired and who paused them stays.
-- batch: name text, handler text, schedule text, timezone text, misfire text, args text
INSERT INTO cron (name, handler, schedule, timezone, misfire, args)
VALUES (:name, :handler, :schedule, :timezone, :misfire, :args)
    ON CONFLICT (name) DO UPDATE
   SET handler = excluded.handler, schedule = excluded.schedule, timezone = excluded.timezone,
       misfire = excluded.misfire, args = excluded.args;
