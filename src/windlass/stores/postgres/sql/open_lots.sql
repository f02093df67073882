-- open_lots: return the partitions of a queue, without its lanes.
SELECT number FROM windlass.lot WHERE queue = :queue
 UNION ALL
SELECT 0 WHERE NOT EXISTS (SELECT FROM windlass.lot WHERE queue = :queue);
