-- record_attempts: keep what went wrong. The good end needs no record of its own: the task's row has it.
-- batch: task blob, fence integer, session blob, started integer, ended integer, state text, error text
INSERT INTO attempt (task, fence, session, started, ended, state, error)
VALUES (:task, :fence, :session, :started, :ended, :state, :error);
