-- parents: return the state of a prerequisite of a submit, or the task with its key. With one writer at a time, no lock
-- is needed.
-- batch: id blob
SELECT t.id, t.tenant, b.workflow, t.state, b.fingerprint, t.fence, t.session
  FROM task AS t JOIN body AS b USING (id)
 WHERE t.id = :id;
