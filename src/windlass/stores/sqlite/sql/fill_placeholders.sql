-- fill_placeholders: remove the placeholders of tasks that are now submitted. Returns those that others wait for.
-- batch: id blob
DELETE FROM placeholder WHERE id = :id RETURNING id;
