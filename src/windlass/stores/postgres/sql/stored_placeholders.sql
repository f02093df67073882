-- stored_placeholders: return the next placeholders in id order, with whether their tasks are stored.
-- They should not be, but a submit that began before its workflow was opened did not fill them.
-- The inner LIMIT is a constant, no smaller than any in use, as in edges_after.
SELECT p.id, p.workflow, EXISTS (SELECT FROM windlass.task AS t WHERE t.id = p.id)
  FROM (SELECT * FROM (SELECT id, workflow FROM windlass.placeholder WHERE id > :id ORDER BY id LIMIT 1000) AS next
         LIMIT :limit) AS p
 ORDER BY p.id;
