-- late_placeholders: remove and return placeholders whose tasks were not submitted in time.
DELETE FROM placeholder
 WHERE id IN (SELECT id FROM placeholder WHERE expires <= :now ORDER BY expires LIMIT :limit)
RETURNING id;
