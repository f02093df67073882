-- move: change locked tasks. The caller decides about the moves and checks them, and moves the rows of the hot tables.
-- moves: waiting | scheduled | runnable | retrying -> cancelled | expired
-- moves: waiting -> scheduled | runnable | failed
-- moves: scheduled -> runnable | completed
-- moves: runnable -> scheduled
-- moves: retrying -> runnable
-- moves: failed | cancelled | expired -> runnable | waiting | scheduled
-- batch: id blob, old text, state text, due integer, expires integer, waiting integer, fence integer,
--   finished integer, attempts integer, crashes integer, losses integer, generation integer,
--   cancel_requested integer, cancel_by integer, reason text
UPDATE task
   SET state = :state, due = :due, expires = :expires, waiting = :waiting, fence = :fence, finished = :finished,
       attempts = :attempts, crashes = :crashes, losses = :losses, generation = :generation,
       cancel_requested = :cancel_requested, cancel_by = :cancel_by, reason = :reason,
       lot = CASE WHEN :state <> 'queued' THEN task.lot
                  WHEN EXISTS (SELECT 1 FROM queue WHERE name = task.queue AND fair = 1) THEN lane(task.tenant) ELSE 0 END
 WHERE id = :id AND state = :old;
