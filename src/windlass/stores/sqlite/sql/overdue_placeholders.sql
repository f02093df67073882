-- overdue_placeholders: a look whether any named task did not come in time.
SELECT id FROM placeholder WHERE expires <= :now LIMIT :limit;
