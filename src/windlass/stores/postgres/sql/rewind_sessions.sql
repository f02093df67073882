-- rewind_sessions: start the time of sessions again that a clock has renewed which was set back since. Otherwise a dead
-- one would keep its leases until the clock is where it was.
UPDATE windlass.session SET renewed = (SELECT windlass.clock(:now))
 WHERE NOT lost AND renewed - ttl > (SELECT windlass.clock(:now));
