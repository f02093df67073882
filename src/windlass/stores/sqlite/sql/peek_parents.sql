-- peek_parents: return the same as `parents` without locks, for sweeps, for the holders of unique tasks, and for the
-- prerequisites of a submit in a caller's transaction, which may stay open for long: those that end meanwhile are found
-- after the commit, through `joining`.
-- batch: id blob
SELECT id, tenant, workflow, state, fingerprint, fence, session FROM current_task WHERE id = :id;
