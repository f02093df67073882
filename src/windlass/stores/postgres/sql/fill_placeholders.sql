-- fill_placeholders: these tasks have now come. Answers with those that others already wait for.
-- batch: id uuid
DELETE FROM windlass.placeholder WHERE id = ANY (:id::uuid[]) RETURNING id;
