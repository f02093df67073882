-- peek_parents: return the same as `parents` without locks, for sweeps, for the holders of unique tasks, and for the
-- prerequisites of a submit in a caller's transaction, which may stay open for long: those that end meanwhile are found
-- after the commit, through `joining`.
-- batch: id uuid
SELECT t.*
  FROM unnest(:id::uuid[]) AS i (id)
 CROSS JOIN LATERAL (
       SELECT id, tenant, workflow, state, fingerprint, fence, session
         FROM windlass.current_task WHERE current_task.id = i.id OFFSET 0) AS t;
