-- publish_crons: insert crons, and update those that differ. Returns the names of both. `fired` and the pause stay.
-- batch: name text, handler text, schedule text, timezone text, misfire text, args text
INSERT INTO windlass.cron (name, handler, schedule, timezone, misfire, args)
SELECT *
  FROM unnest(:name::text[], :handler::text[], :schedule::text[], :timezone::text[], :misfire::text[], :args::text[])
    ON CONFLICT (name) DO UPDATE
   SET handler = excluded.handler, schedule = excluded.schedule, timezone = excluded.timezone,
       misfire = excluded.misfire, args = excluded.args
 WHERE (cron.handler, cron.schedule, cron.timezone, cron.misfire, cron.args)
       IS DISTINCT FROM
       (excluded.handler, excluded.schedule, excluded.timezone, excluded.misfire, excluded.args)
RETURNING name;
