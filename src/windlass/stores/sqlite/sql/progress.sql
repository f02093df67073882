-- progress: store the progress of an attempt. Returns a row if it still holds its task.
-- batch: task blob, fence integer, session blob, share real, message text
INSERT INTO progress (task, fence, share, message, at)
SELECT id, fence, :share, :message, :now
  FROM leased
 WHERE id = :task AND fence = :fence AND session = :session
    ON CONFLICT (task) DO UPDATE
   SET fence = excluded.fence, share = excluded.share, message = excluded.message, at = excluded.at
RETURNING task, fence, :session;
