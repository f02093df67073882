-- settle: write the end of an attempt.
-- Checked by fence and session: a node that lost this task and claimed it again must not end the new attempt with the
-- old result.
-- moves: leased -> completed | retrying | failed | cancelled | expired | runnable | scheduled
-- batch: id blob, fence integer, session blob, state text, due integer, finished integer, attempts integer,
--   crashes integer, losses integer, reason text, error_group text
UPDATE task
   SET state = :state, due = :due, finished = :finished, attempts = :attempts, crashes = :crashes, losses = :losses,
       reason = :reason, error_group = :error_group, cancel_by = NULL
 WHERE id = :id AND state = 'leased' AND fence = :fence AND session = :session;
