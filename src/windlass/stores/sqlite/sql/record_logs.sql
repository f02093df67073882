-- record_logs: insert the output of handlers.
-- batch: task blob, fence integer, text text
INSERT INTO log (task, fence, text) VALUES (:task, :fence, :text);
