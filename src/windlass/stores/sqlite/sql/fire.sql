-- fire: move a cron to a nominal time. Returns no row if it is paused or has already fired for that time.
UPDATE cron SET fired = :nominal
 WHERE name = :name AND paused = 0 AND (fired IS NULL OR fired < :nominal)
RETURNING name;
