-- now: return the store's current time.
SELECT :now;
