-- stored_placeholders: return the next placeholders in id order, with whether their tasks are stored.
SELECT p.id, p.workflow, EXISTS (SELECT 1 FROM task AS t WHERE t.id = p.id)
  FROM placeholder AS p
 WHERE p.id > :id
 ORDER BY p.id
 LIMIT :limit;
