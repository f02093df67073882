-- peek_parents: the same without a lock, for a submit inside a caller's transaction, which may stay open for long.
-- What ends meanwhile is found after the commit, through `joining`.
-- batch: id blob
SELECT t.id, t.tenant, b.workflow, t.state, b.fingerprint, t.fence, t.session
  FROM task AS t JOIN body AS b USING (id)
 WHERE t.id = :id;
