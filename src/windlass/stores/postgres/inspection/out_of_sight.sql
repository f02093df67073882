-- out_of_sight: return runnable tasks in a partition that no claim looks at, or before the mark of a closed one.
SELECT t.id, count(*) OVER ()
  FROM windlass.task AS t LEFT JOIN windlass.lot AS l ON l.queue = t.queue AND l.number = t.lot
 WHERE t.state = 'runnable'
   AND CASE WHEN l.number IS NULL
            THEN t.lot <> 0 OR EXISTS (SELECT FROM windlass.lot AS any_lot WHERE any_lot.queue = t.queue)
            ELSE (t.band, t.rank, t.tie, t.id) < (l.band, l.rank, l.tie, l.id) END
 LIMIT 5;
