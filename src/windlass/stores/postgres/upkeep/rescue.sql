-- rescue: move runnable tasks that no claim can see into the open partition, and return them.
-- Windlass leaves no such task, but a restored, repaired or hand-edited database may have some: tasks of a partition
-- without a row, and tasks before the mark of a closed one. The numbers in use are found with one index lookup each.
WITH RECURSIVE used AS (
    SELECT (SELECT min(lot) FROM windlass.task WHERE queue = :queue AND state = 'runnable') AS number
     UNION ALL
    SELECT (SELECT min(t.lot) FROM windlass.task AS t
             WHERE t.queue = :queue AND t.state = 'runnable' AND t.lot > used.number)
      FROM used WHERE used.number IS NOT NULL
), unseen AS (
    SELECT lost.id
      FROM used CROSS JOIN LATERAL (
           SELECT t.id FROM windlass.task AS t
            WHERE t.queue = :queue AND t.lot = used.number AND t.state = 'runnable'
            ORDER BY t.band, t.rank, t.tie, t.id
            LIMIT :limit
              FOR UPDATE SKIP LOCKED) AS lost
     WHERE NOT EXISTS (SELECT FROM windlass.lot AS l WHERE l.queue = :queue AND l.number = used.number)
       AND (used.number <> 0 OR EXISTS (SELECT FROM windlass.lot AS l WHERE l.queue = :queue))
     UNION ALL
    SELECT lost.id
      FROM windlass.lot AS l CROSS JOIN LATERAL (
           SELECT t.id FROM windlass.task AS t
            WHERE t.queue = :queue AND t.lot = l.number AND t.state = 'runnable'
              AND (t.band, t.rank, t.tie, t.id) < (l.band, l.rank, l.tie, l.id)
            ORDER BY t.band, t.rank, t.tie, t.id
            LIMIT :limit
              FOR UPDATE SKIP LOCKED) AS lost
     WHERE l.queue = :queue AND l.closed_before IS NOT NULL
)
UPDATE windlass.task SET lot = (SELECT windlass.open_lot(:queue))
 WHERE id = ANY (ARRAY(SELECT id FROM unseen LIMIT :limit))
RETURNING id;
