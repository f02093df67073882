-- record_results: keep what handlers gave back.
-- batch: id blob, value text
INSERT INTO result (id, value) VALUES (:id, :value);
