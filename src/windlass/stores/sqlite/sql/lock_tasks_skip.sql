-- lock_tasks_skip: return a task to change it; with one writer at a time, nobody else has locked it.
-- batch: id blob
SELECT id, queue, tenant, state, band, rank, tie, due, expires, waiting, on_failure, fence, session, claimed,
       finished, attempts, crashes, losses, generation, cancel_requested, cancel_by, reason, wait
  FROM task
 WHERE id = :id;
