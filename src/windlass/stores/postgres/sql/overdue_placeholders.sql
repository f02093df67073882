-- overdue_placeholders: a look whether any named task did not come in time.
SELECT id FROM windlass.placeholder WHERE expires <= :now LIMIT :limit;
