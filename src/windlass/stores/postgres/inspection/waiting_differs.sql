-- waiting_differs: return tasks whose counter differs from the number of their open edges.
SELECT t.id, count(*) OVER ()
  FROM windlass.task AS t
 WHERE t.waiting <> (SELECT count(*) FROM windlass.edge AS e WHERE e.child = t.id AND NOT e.resolved)
   AND t.id NOT IN (SELECT child FROM windlass.joining)
 LIMIT 5;
