-- count_ahead: count the runnable tasks before a task in its queue, up to a limit; NULL for a task that no claim can
-- see.
WITH it AS (
    SELECT queue, lot, band, rank, tie, id FROM windlass.task WHERE id = :task AND state = 'runnable'
), lots AS (
    SELECT lot.number, lot.band, lot.rank, lot.tie, lot.id FROM windlass.lot JOIN it ON lot.queue = it.queue
     UNION ALL
    SELECT 0, -9223372036854775808, -9223372036854775808, -9223372036854775808, '00000000-0000-0000-0000-000000000000'
     WHERE NOT EXISTS (SELECT FROM windlass.lot JOIN it ON lot.queue = it.queue)
)
SELECT CASE WHEN EXISTS (SELECT FROM it)
             AND NOT EXISTS (SELECT FROM it JOIN lots ON lots.number = it.lot
                              WHERE (it.band, it.rank, it.tie, it.id) >= (lots.band, lots.rank, lots.tie, lots.id))
            THEN NULL ELSE count(*) END
  FROM (
    SELECT 1
      FROM it CROSS JOIN lots CROSS JOIN LATERAL (
           SELECT 1 FROM windlass.task AS t
            WHERE t.queue = it.queue AND t.lot = lots.number AND t.state = 'runnable'
              AND (t.band, t.rank, t.tie, t.id) < (it.band, it.rank, it.tie, it.id)
            LIMIT :limit) AS before
     LIMIT :limit) AS counted;
