-- count_ahead: count the runnable tasks before a task in its queue, up to a limit. One lookup per lane, and as many lanes at
-- most.
WITH RECURSIVE lots (number, nth) AS (
    SELECT (SELECT max(r.lot) FROM runnable AS r WHERE r.queue = (SELECT queue FROM task WHERE id = :task)), 1
     UNION ALL
    SELECT (SELECT max(r.lot) FROM runnable AS r
             WHERE r.queue = (SELECT queue FROM task WHERE id = :task) AND r.lot < lots.number), nth + 1
      FROM lots WHERE lots.number IS NOT NULL AND nth < :limit
)
SELECT count(*) FROM (
    SELECT 1
      FROM current_task AS it
     CROSS JOIN (SELECT number FROM lots UNION SELECT lot FROM task WHERE id = :task) AS lots
     CROSS JOIN runnable AS r
        ON r.queue = it.queue AND r.lot = lots.number
       AND (r.band, r.rank, r.tie, r.id) < (it.band, it.rank, it.tie, it.id)
     WHERE it.id = :task AND it.state = 'runnable'
     LIMIT :limit);
