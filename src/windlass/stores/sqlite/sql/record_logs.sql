-- record_logs: keep what handlers printed.
-- batch: task blob, fence integer, text text
INSERT INTO log (task, fence, text) VALUES (:task, :fence, :text);
