-- pause_cron: pause or resume a cron. Returns no row if nothing changes or it does not exist.
UPDATE windlass.cron
   SET paused = :paused, paused_by = :paused_by, paused_why = :paused_why, version = greatest(version + 1, windlass.clock(:now))
 WHERE name = :name
   AND (paused IS DISTINCT FROM :paused OR paused_by IS DISTINCT FROM :paused_by
        OR paused_why IS DISTINCT FROM :paused_why)
RETURNING name;
