-- fire: move a cron to a nominal time. Returns no row if it is paused or has already fired for that time.
-- A concurrent call waits for the first one, and then finds that the condition is false.
UPDATE windlass.cron SET fired = :nominal
 WHERE name = :name AND NOT paused AND (fired IS NULL OR fired < :nominal)
RETURNING name;
