-- open_lots: return the partitions of a queue, without its lanes. There is one.
SELECT 0 WHERE :queue IS NOT NULL;
