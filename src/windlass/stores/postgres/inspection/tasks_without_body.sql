-- tasks_without_body: return tasks without a body.
SELECT t.id, count(*) OVER ()
  FROM windlass.task AS t
 WHERE NOT EXISTS (SELECT 1 FROM windlass.body AS b WHERE b.id = t.id)
 LIMIT 5;
