-- in_two_tables: return rows of the hot tables whose task is not queued, or is in another hot table too.
SELECT h.id, count(*) OVER ()
  FROM (SELECT id FROM runnable UNION ALL SELECT id FROM leased UNION ALL SELECT id FROM completed) AS h
  LEFT JOIN task AS t ON t.id = h.id AND t.state = 'queued'
 GROUP BY h.id
HAVING count(*) > 1 OR count(t.id) = 0
 LIMIT 5;
