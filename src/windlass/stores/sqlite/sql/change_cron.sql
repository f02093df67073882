-- change_cron: update a cron that was created at run time. The pause stays.
UPDATE cron
   SET handler = :handler, schedule = :schedule, timezone = :timezone, misfire = :misfire, args = :args, queue = :queue,
       tenant = :tenant, priority = :priority, starts = :start, ends = :end, fired = :fired, version = :version,
       due = :due
 WHERE name = :name
RETURNING name;
