-- parents: how the prerequisites of a submit stand, and which of its keys are taken.
-- FOR SHARE and nothing weaker: a settle that runs at the same time must wait until the new edges can be seen, or it
-- resolves without them and the new task waits for ever. In id order, like every lock on tasks.
-- batch: id uuid
SELECT t.id, t.tenant, b.workflow, t.state, b.fingerprint, t.fence, t.session
  FROM windlass.task AS t JOIN windlass.body AS b USING (id)
 WHERE t.id = ANY (:id::uuid[])
 ORDER BY t.id
   FOR SHARE OF t;
