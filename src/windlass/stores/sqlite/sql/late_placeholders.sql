-- late_placeholders: remove and return placeholders whose tasks were not submitted in time.
DELETE FROM placeholder
 WHERE id IN (SELECT p.id FROM placeholder AS p
               WHERE p.expires <= :now AND NOT EXISTS (SELECT 1 FROM task AS t WHERE t.id = p.id)
               ORDER BY p.expires LIMIT :limit)
RETURNING id;
