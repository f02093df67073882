-- parents: how a prerequisite of a submit stands, or whether its key is taken. One writer at a time: no lock.
-- batch: id blob
SELECT t.id, t.tenant, b.workflow, t.state, b.fingerprint, t.fence, t.session
  FROM task AS t JOIN body AS b USING (id)
 WHERE t.id = :id;
