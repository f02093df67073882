-- late_placeholders: remove and return placeholders whose tasks were not submitted in time.
DELETE FROM windlass.placeholder
 WHERE id IN (SELECT id FROM windlass.placeholder WHERE expires <= :now ORDER BY expires LIMIT :limit
                 FOR UPDATE SKIP LOCKED)
RETURNING id;
