-- lock_leased_skip: return the lease of a task; with one writer at a time, nobody else has locked it.
-- batch: id blob
SELECT id, fence, session, claimed FROM leased WHERE id = :id;
