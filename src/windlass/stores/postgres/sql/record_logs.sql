-- record_logs: store the output of attempts that end, in place of what they had printed while they ran.
-- batch: task uuid, fence bigint, text text
INSERT INTO windlass.log (task, fence, text) SELECT * FROM unnest(:task::uuid[], :fence::bigint[], :text::text[])
    ON CONFLICT (task, fence) DO UPDATE SET text = excluded.text;
