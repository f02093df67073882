-- parents: return the states of prerequisites of a submit, and the tasks with its keys.
-- FOR SHARE and nothing weaker: a concurrent settle must wait until it can see the new edges, or the new task would
-- wait forever. In id order, like every lock on tasks.
-- batch: id uuid
SELECT t.id, t.tenant, b.workflow, t.state, b.fingerprint, t.fence, t.session
  FROM windlass.task AS t JOIN windlass.body AS b USING (id)
 WHERE t.id = ANY (:id::uuid[])
 ORDER BY t.id
   FOR SHARE OF t;
