-- open_placeholders: return those of these ids that are placeholders.
-- batch: id uuid
SELECT id FROM windlass.placeholder WHERE id = ANY (:id::uuid[]);
