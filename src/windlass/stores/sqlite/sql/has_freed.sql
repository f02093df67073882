-- has_freed: return a row if leases have ended whose limits no claim has looked at since.
SELECT 1 FROM freed LIMIT 1;
