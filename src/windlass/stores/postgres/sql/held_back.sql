-- held_back: return a row if a limit holds back tasks of a queue in a lane of its own.
SELECT 1
  FROM windlass.parked AS p
 WHERE p.queue = :queue AND p.name <> ''
   AND EXISTS (SELECT FROM windlass.runnable AS r
                WHERE r.queue = p.queue AND r.lot = p.lot AND (r.expires IS NULL OR r.expires > :now::bigint))
 LIMIT 1;
