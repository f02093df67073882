-- open_placeholders: return those of these ids that are placeholders.
-- batch: id blob
SELECT id FROM placeholder WHERE id = :id;
