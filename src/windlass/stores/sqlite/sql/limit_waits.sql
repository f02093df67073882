-- limit_waits: nothing to do, because there is one writer at a time.
SELECT :milliseconds;
