-- now: the store's present moment.
SELECT :now;
