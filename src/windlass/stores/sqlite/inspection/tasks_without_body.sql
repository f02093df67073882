-- tasks_without_body: tasks of which nobody knows what they are.
SELECT t.id, count(*) OVER ()
  FROM task AS t
 WHERE NOT EXISTS (SELECT 1 FROM body AS b WHERE b.id = t.id)
 LIMIT 5;
