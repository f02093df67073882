-- fire: move a cron to a nominal time. Returns no row if it is paused, has already fired for that time, or is in another
-- version.
UPDATE cron SET fired = :nominal, due = :due
 WHERE name = :name AND NOT paused AND (fired IS NULL OR fired < :nominal)
   AND version = coalesce(:version, version)
RETURNING name;
