-- audit_of: a page of the audit log about one subject, newest first.
-- Written as a range, so that the planner goes by the index: it takes a subject for common, and would read the log back to
-- where it finds enough of it.
SELECT number, at, subject, action, text, by, data
  FROM windlass.audit
 WHERE subject >= :subject AND (subject, number) < (:subject, :before::bigint)
 ORDER BY subject DESC, number DESC
 LIMIT :limit;
