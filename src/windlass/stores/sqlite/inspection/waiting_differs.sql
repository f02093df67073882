-- waiting_differs: return tasks whose counter differs from the number of their open edges.
SELECT t.id, count(*) OVER ()
  FROM task AS t
 WHERE t.waiting <> (SELECT count(*) FROM edge AS e WHERE e.child = t.id AND NOT e.resolved)
   AND t.id NOT IN (SELECT child FROM joining)
 LIMIT 5;
