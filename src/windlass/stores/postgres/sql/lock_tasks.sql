-- lock_tasks: lock and return tasks, in id order. A queued one is then locked in one of the hot tables.
-- batch: id uuid
SELECT id, queue, tenant, state, band, rank, tie, due, expires, waiting, on_failure, fence, session, claimed,
       finished, attempts, crashes, losses, generation, cancel_requested, cancel_by, reason, wait
  FROM windlass.task
 WHERE id = ANY (:id::uuid[])
 ORDER BY id
   FOR UPDATE;
