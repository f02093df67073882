-- now: the store's present moment.
SELECT windlass.clock(:now);
