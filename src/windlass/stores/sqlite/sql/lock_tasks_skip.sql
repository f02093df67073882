-- lock_tasks_skip: the same for the sweep; one writer at a time, so nobody else is busy with it.
-- batch: id blob
SELECT id, queue, tenant, state, band, rank, tie, due, expires, waiting, on_failure, fence, session, claimed,
       finished, attempts, crashes, losses, generation, cancel_requested, cancel_by, reason
  FROM task
 WHERE id = :id;
