-- pause_cron: let a cron fire no more, or again. No row back means that there is none of this name.
UPDATE cron SET paused = :paused, paused_by = :paused_by, paused_why = :paused_why WHERE name = :name
RETURNING name;
