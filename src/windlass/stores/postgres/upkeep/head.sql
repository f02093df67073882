-- head: count the pages that a claim reads before the first runnable task of a queue's open partition.
EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, SUMMARY OFF, FORMAT JSON)
SELECT id FROM windlass.runnable
 WHERE queue = :queue
   AND lot = (SELECT coalesce(max(number), 0) FROM windlass.lot WHERE queue = :queue)
 ORDER BY band, rank, tie, id
 LIMIT 1;
