-- audit_of: return a page of the audit log about one subject, newest first.
SELECT number, at, subject, action, text, by, data
  FROM audit
 WHERE subject = :subject AND number < :before
 ORDER BY number DESC
 LIMIT :limit;
