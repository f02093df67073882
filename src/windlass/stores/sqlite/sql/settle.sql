-- settle: write the end of an attempt that did not complete. `end_leases` removes its lease.
-- moves: leased -> retrying | failed | cancelled | expired | runnable | scheduled | waiting
-- batch: id blob, fence integer, session blob, claimed integer, state text, due integer, finished integer,
--   attempts integer, crashes integer, losses integer, reason text, error_group text
UPDATE task
   SET state = :state, fence = :fence, session = :session, claimed = :claimed, due = :due, finished = :finished,
       attempts = :attempts, crashes = :crashes, losses = :losses, reason = :reason, error_group = :error_group,
       cancel_by = NULL,
       lot = CASE WHEN :state <> 'queued' THEN task.lot
                  WHEN EXISTS (SELECT 1 FROM queue WHERE name = task.queue AND fair = 1) THEN lane(task.tenant) ELSE 0 END
 WHERE id = :id;
