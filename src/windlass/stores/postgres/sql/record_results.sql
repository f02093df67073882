-- record_results: insert the results of handlers.
-- batch: id uuid, value text
INSERT INTO windlass.result (id, value) SELECT * FROM unnest(:id::uuid[], :value::text[]);
