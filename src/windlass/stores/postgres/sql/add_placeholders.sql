-- add_placeholders: tasks named before they are submitted.
-- One that is there already is locked: a sweep that ends it must either see who waits for it now, or come first.
-- batch: id uuid, workflow uuid, expires bigint
INSERT INTO windlass.placeholder (id, workflow, expires)
SELECT * FROM unnest(:id::uuid[], :workflow::uuid[], :expires::bigint[])
    ON CONFLICT (id) DO UPDATE SET id = excluded.id;
