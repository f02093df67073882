-- in_no_table: return queued tasks that are in none of the hot tables, so that nobody would ever run them.
SELECT t.id, count(*) OVER ()
  FROM windlass.task AS t
 WHERE t.state = 'queued'
   AND NOT EXISTS (SELECT 1 FROM windlass.runnable AS r
                    WHERE r.queue = t.queue AND r.band = t.band AND r.rank = t.rank AND r.tie = t.tie AND r.id = t.id AND r.lot = t.lot)
   AND NOT EXISTS (SELECT 1 FROM windlass.leased AS l WHERE l.id = t.id)
   AND NOT EXISTS (SELECT 1 FROM windlass.completed AS c WHERE c.id = t.id)
 LIMIT 5;
