-- open_placeholders: which of these are tasks still to come.
-- batch: id uuid
SELECT id FROM windlass.placeholder WHERE id = ANY (:id::uuid[]);
