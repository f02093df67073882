-- fire: move a cron on to a nominal time. No row back means that it is paused, or that somebody was here before.
-- Whoever comes second waits for the first, and then finds the condition no longer true.
UPDATE windlass.cron SET fired = :nominal
 WHERE name = :name AND NOT paused AND (fired IS NULL OR fired < :nominal)
RETURNING name;
