-- bodies_without_task: return bodies whose tasks do not exist.
SELECT b.id, count(*) OVER ()
  FROM body AS b
 WHERE NOT EXISTS (SELECT 1 FROM task AS t WHERE t.id = b.id)
 LIMIT 5;
