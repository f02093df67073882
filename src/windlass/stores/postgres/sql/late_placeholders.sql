-- late_placeholders: tasks that were named but did not come in time.
DELETE FROM windlass.placeholder
 WHERE id IN (SELECT id FROM windlass.placeholder WHERE expires <= :now ORDER BY expires LIMIT :limit
                 FOR UPDATE SKIP LOCKED)
RETURNING id;
