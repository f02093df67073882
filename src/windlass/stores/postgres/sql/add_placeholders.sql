-- add_placeholders: add tasks that are named before they are submitted.
-- Existing ones are locked, so that a sweep that ends one either sees the new edges or commits first.
-- batch: id uuid, workflow uuid, expires bigint
INSERT INTO windlass.placeholder (id, workflow, expires)
SELECT * FROM unnest(:id::uuid[], :workflow::uuid[], :expires::bigint[])
    ON CONFLICT (id) DO UPDATE SET id = excluded.id;
