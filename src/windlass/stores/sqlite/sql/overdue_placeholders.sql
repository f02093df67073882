-- overdue_placeholders: return a row if a placeholder has expired.
SELECT id FROM placeholder WHERE expires <= :now LIMIT :limit;
