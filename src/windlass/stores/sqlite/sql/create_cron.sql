-- create_cron: insert a cron that was created at run time. Returns no row if its name is taken.
INSERT INTO cron
       (name, handler, schedule, timezone, misfire, args, queue, tenant, priority, starts, ends,
        fired, paused, paused_by, paused_why, at_run_time, version, due)
VALUES (:name, :handler, :schedule, :timezone, :misfire, :args, :queue, :tenant, :priority, :start, :end,
        :fired, :paused, :paused_by, :paused_why, true, :version, :due)
    ON CONFLICT (name) DO NOTHING
RETURNING name;
