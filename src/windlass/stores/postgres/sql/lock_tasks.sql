-- lock_tasks: lock these tasks, in id order, and read them as they stand.
-- batch: id uuid
SELECT id, queue, tenant, state, band, rank, tie, due, expires, waiting, on_failure, fence, session, claimed,
       finished, attempts, crashes, losses, generation, cancel_requested, cancel_by, reason
  FROM windlass.task
 WHERE id = ANY (:id::uuid[])
 ORDER BY id
   FOR UPDATE;
