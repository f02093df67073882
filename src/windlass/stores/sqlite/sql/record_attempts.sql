-- record_attempts: insert failed attempts. A completed one needs no row: its task has everything.
-- batch: task blob, fence integer, session blob, started integer, ended integer, state text, error text
INSERT INTO attempt (task, fence, session, started, ended, state, error)
VALUES (:task, :fence, :session, :started, :ended, :state, :error);
