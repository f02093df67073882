-- parents: return the state of a prerequisite of a submit, or the task with its key. With one writer at a time, no lock
-- is needed.
-- batch: id blob
SELECT id, tenant, workflow, state, fingerprint, fence, session FROM task WHERE id = :id;
