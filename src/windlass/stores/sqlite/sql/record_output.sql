-- record_output: store what a running attempt has printed so far. Returns a row if it still holds its task.
-- batch: task blob, fence integer, session blob, text text
INSERT INTO log (task, fence, text)
SELECT id, fence, :text
  FROM leased
 WHERE id = :task AND fence = :fence AND session = :session
    ON CONFLICT (task, fence) DO UPDATE SET text = excluded.text
RETURNING task, fence, :session;
