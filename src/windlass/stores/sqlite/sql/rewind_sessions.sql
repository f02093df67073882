-- rewind_sessions: start the time of sessions again that a clock has renewed which was set back since. Otherwise a dead
-- one would keep its leases until the clock is where it was.
UPDATE session SET renewed = :now
 WHERE lost = 0 AND renewed - ttl > :now;
