-- ahead: how many runnable tasks stand before one in its queue, up to a limit.
WITH it AS (
    SELECT queue, band, rank, tie, id FROM windlass.task WHERE id = :task AND state = 'runnable'
), lots AS (
    SELECT lot.number FROM windlass.lot JOIN it ON lot.queue = it.queue
     UNION ALL
    SELECT 0 WHERE NOT EXISTS (SELECT FROM windlass.lot JOIN it ON lot.queue = it.queue)
)
SELECT count(*) FROM (
    SELECT 1
      FROM it CROSS JOIN lots CROSS JOIN LATERAL (
           SELECT 1 FROM windlass.task AS t
            WHERE t.queue = it.queue AND t.lot = lots.number AND t.state = 'runnable'
              AND (t.band, t.rank, t.tie, t.id) < (it.band, it.rank, it.tie, it.id)
            LIMIT :limit) AS before
     LIMIT :limit) AS counted;
