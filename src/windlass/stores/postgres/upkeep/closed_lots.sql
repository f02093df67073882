-- closed_lots: return the closed partitions of a queue that nobody can write to any more, with the first task behind
-- their mark.
SELECT l.number, head.band, head.rank, head.tie, head.id
  FROM windlass.lot AS l LEFT JOIN LATERAL (
       SELECT t.band, t.rank, t.tie, t.id
         FROM windlass.task AS t
        WHERE t.queue = l.queue AND t.lot = l.number AND t.state = 'runnable'
          AND (t.band, t.rank, t.tie, t.id) >= (l.band, l.rank, l.tie, l.id)
        ORDER BY t.band, t.rank, t.tie, t.id
        LIMIT 1) AS head ON true
 WHERE l.queue = :queue AND l.closed_before <= pg_snapshot_xmin(pg_current_snapshot())
 ORDER BY l.number;
