-- record_logs: insert the output of handlers.
-- batch: task uuid, fence bigint, text text
INSERT INTO windlass.log (task, fence, text) SELECT * FROM unnest(:task::uuid[], :fence::bigint[], :text::text[]);
