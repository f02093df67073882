-- lock_tasks_skip: lock and return tasks, without those that others have locked.
-- batch: id uuid
SELECT id, queue, tenant, state, band, rank, tie, due, expires, waiting, on_failure, fence, session, claimed,
       finished, attempts, crashes, losses, generation, cancel_requested, cancel_by, reason, wait
  FROM windlass.task
 WHERE id = ANY (:id::uuid[])
 ORDER BY id
   FOR UPDATE SKIP LOCKED;
