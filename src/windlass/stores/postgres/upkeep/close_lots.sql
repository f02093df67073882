-- close_lots: record, after everyone can see the next partition, which transactions may still write to older ones.
UPDATE windlass.lot AS l
   SET closed_before = pg_snapshot_xmax(pg_current_snapshot())
 WHERE queue = :queue AND closed_before IS NULL
   AND EXISTS (SELECT FROM windlass.lot AS newer WHERE newer.queue = l.queue AND newer.number > l.number);
