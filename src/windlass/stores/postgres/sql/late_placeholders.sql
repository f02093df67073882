-- late_placeholders: remove and return placeholders whose tasks were not submitted in time.
-- One whose task is stored was not filled, because the submit began before its workflow was opened. It stays until the
-- sweep fills it.
DELETE FROM windlass.placeholder
 WHERE id IN (SELECT p.id FROM windlass.placeholder AS p
               WHERE p.expires <= :now AND NOT EXISTS (SELECT FROM windlass.task AS t WHERE t.id = p.id)
               ORDER BY p.expires LIMIT :limit
                 FOR UPDATE SKIP LOCKED)
RETURNING id;
