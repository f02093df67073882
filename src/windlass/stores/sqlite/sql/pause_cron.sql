-- pause_cron: let a cron fire no more, or again. No row back means that it is so already, or that there is none.
UPDATE cron SET paused = :paused, paused_by = :paused_by, paused_why = :paused_why
 WHERE name = :name
   AND (paused IS DISTINCT FROM :paused OR paused_by IS DISTINCT FROM :paused_by
        OR paused_why IS DISTINCT FROM :paused_why)
RETURNING name;
