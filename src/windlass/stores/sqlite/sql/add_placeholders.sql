-- add_placeholders: add tasks that are named before they are submitted.
-- batch: id blob, workflow blob, expires integer
INSERT INTO placeholder (id, workflow, expires)
VALUES (:id, :workflow, :expires)
    ON CONFLICT (id) DO NOTHING;
