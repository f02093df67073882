-- record_logs: store the output of attempts that end, in place of what they had printed while they ran.
-- batch: task blob, fence integer, text text
INSERT INTO log (task, fence, text) VALUES (:task, :fence, :text)
    ON CONFLICT (task, fence) DO UPDATE SET text = excluded.text;
