-- parents: return the states of prerequisites of a submit, and the tasks with its keys. Queued ones are then locked in one
-- of the hot tables.
-- FOR SHARE and nothing weaker: a concurrent settle must wait until it can see the new edges, or the new task would
-- wait forever. In id order, like every lock on tasks.
-- batch: id uuid
SELECT id, tenant, workflow, state, fingerprint, fence, session
  FROM windlass.task
 WHERE id = ANY (:id::uuid[])
 ORDER BY id
   FOR SHARE;
