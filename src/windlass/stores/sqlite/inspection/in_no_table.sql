-- in_no_table: return queued tasks that are in none of the hot tables, so that nobody would ever run them.
SELECT t.id, count(*) OVER ()
  FROM task AS t
 WHERE t.state = 'queued'
   AND NOT EXISTS (SELECT 1 FROM runnable AS r
                    WHERE r.queue = t.queue AND r.lot = t.lot AND r.band = t.band AND r.rank = t.rank AND r.tie = t.tie
                      AND r.id = t.id)
   AND NOT EXISTS (SELECT 1 FROM leased AS l WHERE l.id = t.id)
   AND NOT EXISTS (SELECT 1 FROM completed AS c WHERE c.id = t.id)
 LIMIT 5;
