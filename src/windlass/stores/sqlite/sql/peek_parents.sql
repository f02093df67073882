-- peek_parents: return the same as `parents` without locks, for a submit in a caller's transaction, which may stay open
-- for long.
-- Prerequisites that end meanwhile are found after the commit, through `joining`.
-- batch: id blob
SELECT t.id, t.tenant, b.workflow, t.state, b.fingerprint, t.fence, t.session
  FROM task AS t JOIN body AS b USING (id)
 WHERE t.id = :id;
