-- open_placeholders: which of these are tasks still to come.
-- batch: id blob
SELECT id FROM placeholder WHERE id = :id;
