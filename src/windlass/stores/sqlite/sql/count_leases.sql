-- count_leases: if there are limits, count all leases for them from now on.
UPDATE leased SET limited = 1
 WHERE limited = 0 AND EXISTS (SELECT 1 FROM control WHERE kind = 'limit' AND value IS NOT NULL);
