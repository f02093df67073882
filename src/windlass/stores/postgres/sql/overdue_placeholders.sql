-- overdue_placeholders: return a row if a placeholder has expired.
SELECT id FROM windlass.placeholder WHERE expires <= :now LIMIT :limit;
