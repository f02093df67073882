-- restore_waits: nothing to do, because there is one writer at a time.
SELECT 1;
