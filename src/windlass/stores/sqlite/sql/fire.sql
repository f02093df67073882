-- fire: move a cron on to a nominal time. No row back means that it is paused, or that somebody was here before.
UPDATE cron SET fired = :nominal
 WHERE name = :name AND paused = 0 AND (fired IS NULL OR fired < :nominal)
RETURNING name;
