-- audit_of: return a page of the audit log about one subject, newest first.
-- The condition is a range so that the planner uses the index; otherwise it might scan the log backwards.
SELECT number, at, subject, action, text, by, data
  FROM windlass.audit
 WHERE subject >= :subject AND (subject, number) < (:subject, :before::bigint)
 ORDER BY subject DESC, number DESC
 LIMIT :limit;
