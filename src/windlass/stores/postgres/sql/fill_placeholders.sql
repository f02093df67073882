-- fill_placeholders: remove the placeholders of tasks that are now submitted. Returns those that others wait for.
-- batch: id uuid
DELETE FROM windlass.placeholder WHERE id = ANY (:id::uuid[]) RETURNING id;
