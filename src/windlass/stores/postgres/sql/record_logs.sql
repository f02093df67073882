-- record_logs: keep what handlers printed.
-- batch: task uuid, fence bigint, text text
INSERT INTO windlass.log (task, fence, text) SELECT * FROM unnest(:task::uuid[], :fence::bigint[], :text::text[]);
