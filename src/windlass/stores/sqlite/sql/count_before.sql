-- count_before: count the runnable tasks of a queue up to a place, up to a limit. One lookup per lane, and as many lanes at
-- most.
WITH RECURSIVE lots (number, nth) AS (
    SELECT max(lot), 1 FROM runnable WHERE queue = :queue
     UNION ALL
    SELECT (SELECT max(r.lot) FROM runnable AS r WHERE r.queue = :queue AND r.lot < lots.number), nth + 1
      FROM lots WHERE lots.number IS NOT NULL AND nth < :limit
)
SELECT count(*) FROM (
    SELECT 1
      FROM lots CROSS JOIN runnable AS r
        ON r.queue = :queue AND r.lot = lots.number AND (r.band, r.rank, r.tie) <= (:band, :rank, :tie)
     LIMIT :limit);
