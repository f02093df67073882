-- count_ahead: count the runnable tasks before a task in its queue, up to a limit; NULL for a task that no claim can
-- see. One lookup per partition and lane, and as many lanes at most.
WITH RECURSIVE it AS (
    SELECT r.queue, r.lot, r.band, r.rank, r.tie, r.id,
           EXISTS (SELECT FROM windlass.queue AS q WHERE q.name = r.queue AND q.fair)
           OR (SELECT true FROM windlass.parked AS p WHERE p.queue = r.queue LIMIT 1) AS has_lanes
      FROM (SELECT id, queue, lot, band, rank, tie FROM windlass.task WHERE id = :task) AS t
      JOIN windlass.runnable AS r
        ON r.queue = t.queue AND r.lot = t.lot AND r.band = t.band AND r.rank = t.rank AND r.tie = t.tie AND r.id = t.id
), lanes AS (
    SELECT 0::bigint AS number, it.queue, 0 AS nth FROM it WHERE it.has_lanes
     UNION ALL
    SELECT head.lot, lanes.queue, nth + 1
      FROM lanes CROSS JOIN LATERAL (
           SELECT r.lot FROM windlass.runnable AS r
            WHERE r.queue = lanes.queue AND r.lot < lanes.number
            ORDER BY r.lot DESC, r.band DESC, r.rank DESC, r.tie DESC, r.id DESC LIMIT 1) AS head
     WHERE nth < :limit::bigint
), lots AS (
    SELECT lot.number, lot.band, lot.rank, lot.tie, lot.id FROM windlass.lot JOIN it ON lot.queue = it.queue
     UNION ALL
    SELECT number, -9223372036854775808, -9223372036854775808, -9223372036854775808,
           '00000000-0000-0000-0000-000000000000'
      FROM (SELECT 0 AS number WHERE NOT EXISTS (SELECT FROM windlass.lot JOIN it ON lot.queue = it.queue)
             UNION ALL
            (SELECT number FROM lanes WHERE number < 0 UNION SELECT lot FROM it WHERE lot < 0)) AS others
)
SELECT CASE WHEN EXISTS (SELECT FROM it)
             AND NOT EXISTS (SELECT FROM it JOIN lots ON lots.number = it.lot
                              WHERE (it.band, it.rank, it.tie, it.id) >= (lots.band, lots.rank, lots.tie, lots.id))
            THEN NULL ELSE count(*) END
  FROM (
    SELECT 1
      FROM it CROSS JOIN lots CROSS JOIN LATERAL (
           SELECT 1 FROM windlass.runnable AS r
            WHERE r.queue = it.queue AND r.lot = lots.number
              AND (r.band, r.rank, r.tie, r.id) < (it.band, it.rank, it.tie, it.id)
            LIMIT :limit) AS before
     LIMIT :limit) AS counted;
