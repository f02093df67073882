-- out_of_sight: return runnable tasks in a partition that no claim looks at, or before the mark of a closed one.
SELECT r.id, count(*) OVER ()
  FROM windlass.runnable AS r LEFT JOIN windlass.lot AS l ON l.queue = r.queue AND l.number = r.lot
 WHERE CASE WHEN l.number IS NULL
            THEN CASE WHEN r.lot < 0
                      THEN NOT (r.lot > -4611686018427387904
                                AND EXISTS (SELECT FROM windlass.queue AS q WHERE q.name = r.queue AND q.fair))
                           AND NOT EXISTS (SELECT FROM windlass.parked AS p
                                            WHERE p.queue = r.queue
                                              AND CASE p.name WHEN '' THEN r.lot > -4611686018427387904
                                                              ELSE p.lot = r.lot END)
                      ELSE r.lot <> 0 OR EXISTS (SELECT FROM windlass.lot AS any_lot WHERE any_lot.queue = r.queue) END
            ELSE (r.band, r.rank, r.tie, r.id) < (l.band, l.rank, l.tie, l.id) END
 LIMIT 5;
