-- peek_parents: the same without a lock, for a submit inside a caller's transaction, which may stay open for long.
-- What ends meanwhile is found after the commit, through `joining`.
-- batch: id uuid
SELECT t.id, t.tenant, b.workflow, t.state, b.fingerprint, t.fence, t.session
  FROM windlass.task AS t JOIN windlass.body AS b USING (id)
 WHERE t.id = ANY (:id::uuid[]);
