-- rescue: move runnable tasks that no claim can see into the open partition, and return them.
-- Windlass leaves no such task, but a restored, repaired or hand-edited database may have some: tasks of a partition
-- without a row, lanes that no claim knows of, and tasks before the mark of a closed partition. The numbers in use are
-- found with one index lookup each.
WITH RECURSIVE used AS (
    SELECT (SELECT min(lot) FROM windlass.runnable WHERE queue = :queue) AS number
     UNION ALL
    SELECT (SELECT min(r.lot) FROM windlass.runnable AS r WHERE r.queue = :queue AND r.lot > used.number)
      FROM used WHERE used.number IS NOT NULL
), unseen AS MATERIALIZED (
    SELECT lost.lot, lost.band, lost.rank, lost.tie, lost.id
      FROM (SELECT lost.*
              FROM used CROSS JOIN LATERAL (
                   SELECT r.lot, r.band, r.rank, r.tie, r.id FROM windlass.runnable AS r
                    WHERE r.queue = :queue AND r.lot = used.number
                    ORDER BY r.band, r.rank, r.tie, r.id
                    LIMIT :limit) AS lost
             WHERE NOT EXISTS (SELECT FROM windlass.lot AS l WHERE l.queue = :queue AND l.number = used.number)
               AND (used.number <> 0 OR EXISTS (SELECT FROM windlass.lot AS l WHERE l.queue = :queue))
               AND NOT EXISTS (SELECT FROM windlass.parked AS p WHERE p.queue = :queue AND p.lot = used.number
                                  AND p.lot <= -1 AND p.name <> '')
               AND NOT (used.number < 0 AND used.number > -4611686018427387904
                        AND (EXISTS (SELECT FROM windlass.queue WHERE name = :queue AND fair)
                             OR EXISTS (SELECT FROM windlass.parked WHERE queue = :queue AND tenant = '' AND name = '')))
             UNION ALL
            SELECT lost.*
              FROM windlass.lot AS l CROSS JOIN LATERAL (
                   SELECT r.lot, r.band, r.rank, r.tie, r.id FROM windlass.runnable AS r
                    WHERE r.queue = :queue AND r.lot = l.number
                      AND (r.band, r.rank, r.tie, r.id) < (l.band, l.rank, l.tie, l.id)
                    ORDER BY r.band, r.rank, r.tie, r.id
                    LIMIT :limit) AS lost
             WHERE l.queue = :queue AND l.closed_before IS NOT NULL) AS lost
     LIMIT :limit
), held AS MATERIALIZED (
    -- The tasks first, like every change that is not on the hot path.
    SELECT t.id FROM windlass.task AS t WHERE t.id = ANY (ARRAY(SELECT id FROM unseen)) FOR UPDATE SKIP LOCKED
), moved AS (
    UPDATE windlass.runnable AS r SET lot = (SELECT windlass.open_lot(:queue))
     WHERE r.ctid = ANY (ARRAY(
           SELECT locked.place
             FROM unseen AS s JOIN held USING (id)
            CROSS JOIN LATERAL (
                  SELECT r.ctid AS place FROM windlass.runnable AS r
                   WHERE r.queue = :queue AND r.lot = s.lot AND r.band = s.band AND r.rank = s.rank AND r.tie = s.tie
                     AND r.id = s.id
                     FOR UPDATE SKIP LOCKED) AS locked))
    RETURNING r.id, r.lot
)
UPDATE windlass.task AS t SET lot = moved.lot FROM moved WHERE t.id = moved.id
RETURNING t.id;
