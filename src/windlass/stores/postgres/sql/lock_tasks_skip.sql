-- lock_tasks_skip: the same for the sweep, which leaves alone what somebody else is busy with.
-- batch: id uuid
SELECT id, queue, tenant, state, band, rank, tie, due, expires, waiting, on_failure, fence, session, claimed,
       finished, attempts, crashes, losses, generation, cancel_requested, cancel_by, reason
  FROM windlass.task
 WHERE id = ANY (:id::uuid[])
 ORDER BY id
   FOR UPDATE SKIP LOCKED;
