-- pause_cron: pause or resume a cron. Returns no row if nothing changes or it does not exist.
UPDATE cron
   SET paused = :paused, paused_by = :paused_by, paused_why = :paused_why, version = max(version + 1, :now)
 WHERE name = :name
   AND (paused IS DISTINCT FROM :paused OR paused_by IS DISTINCT FROM :paused_by
        OR paused_why IS DISTINCT FROM :paused_why)
RETURNING name;
