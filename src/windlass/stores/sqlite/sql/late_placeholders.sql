-- late_placeholders: tasks that were named but did not come in time.
DELETE FROM placeholder
 WHERE id IN (SELECT id FROM placeholder WHERE expires <= :now ORDER BY expires LIMIT :limit)
RETURNING id;
