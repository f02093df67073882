-- lock_leased: return the lease of a task. With one writer at a time, no lock is needed.
-- batch: id blob
SELECT id, fence, session, claimed FROM leased WHERE id = :id;
