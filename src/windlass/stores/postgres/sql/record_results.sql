-- record_results: keep what handlers gave back.
-- batch: id uuid, value text
INSERT INTO windlass.result (id, value) SELECT * FROM unnest(:id::uuid[], :value::text[]);
