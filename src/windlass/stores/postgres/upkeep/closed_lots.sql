-- closed_lots: return the closed partitions of a queue that nobody can write to any more, with the first task behind
-- their mark.
SELECT l.number, head.band, head.rank, head.tie, head.id
  FROM windlass.lot AS l LEFT JOIN LATERAL (
       SELECT r.band, r.rank, r.tie, r.id
         FROM windlass.runnable AS r
        WHERE r.queue = l.queue AND r.lot = l.number
          AND (r.band, r.rank, r.tie, r.id) >= (l.band, l.rank, l.tie, l.id)
        ORDER BY r.band, r.rank, r.tie, r.id
        LIMIT 1) AS head ON true
 WHERE l.queue = :queue AND l.closed_before <= pg_snapshot_xmin(pg_current_snapshot())
 ORDER BY l.number;
