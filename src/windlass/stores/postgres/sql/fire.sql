-- fire: move a cron to a nominal time. Returns no row if it is paused, has already fired for that time, or is in another
-- version. A concurrent call waits for the first one, and then finds that the condition is false.
UPDATE windlass.cron SET fired = :nominal, due = :due
 WHERE name = :name AND NOT paused AND (fired IS NULL OR fired < :nominal)
   AND version = coalesce(:version::bigint, version)
RETURNING name;
