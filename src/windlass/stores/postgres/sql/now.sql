-- now: return the store's current time.
SELECT windlass.clock(:now);
