-- count_before: count the runnable tasks of a queue up to a place, up to a limit. One lookup per partition and lane, and as
-- many lanes at most.
WITH RECURSIVE lots AS (
    (SELECT r.lot AS number, 1 AS nth
       FROM windlass.runnable AS r
      WHERE r.queue = :queue
      ORDER BY r.lot DESC, r.band DESC, r.rank DESC, r.tie DESC, r.id DESC LIMIT 1)
     UNION ALL
    SELECT head.lot, nth + 1
      FROM lots CROSS JOIN LATERAL (
           SELECT r.lot
             FROM windlass.runnable AS r
            WHERE r.queue = :queue AND r.lot < lots.number
            ORDER BY r.lot DESC, r.band DESC, r.rank DESC, r.tie DESC, r.id DESC LIMIT 1) AS head
     WHERE nth < :limit::bigint
)
SELECT count(*) FROM (
    SELECT 1
      FROM lots CROSS JOIN LATERAL (
           SELECT 1 FROM windlass.runnable AS r
            WHERE r.queue = :queue AND r.lot = lots.number AND (r.band, r.rank, r.tie) <= (:band, :rank, :tie)
            LIMIT :limit) AS before
     LIMIT :limit) AS counted;
