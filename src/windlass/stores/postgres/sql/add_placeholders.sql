-- add_placeholders: tasks named before they are submitted.
-- batch: id uuid, workflow uuid, expires bigint
INSERT INTO windlass.placeholder (id, workflow, expires)
SELECT * FROM unnest(:id::uuid[], :workflow::uuid[], :expires::bigint[])
    ON CONFLICT (id) DO NOTHING;
