-- record_results: insert the results of handlers.
-- batch: id blob, value text
INSERT INTO result (id, value) VALUES (:id, :value);
