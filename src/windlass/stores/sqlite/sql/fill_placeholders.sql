-- fill_placeholders: these tasks have now come. Answers with those that others already wait for.
-- batch: id blob
DELETE FROM placeholder WHERE id = :id RETURNING id;
