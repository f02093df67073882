-- audit_of: a page of the audit log about one subject, newest first.
SELECT number, at, subject, action, text, by, data
  FROM windlass.audit
 WHERE subject = :subject AND number < :before::bigint
 ORDER BY number DESC
 LIMIT :limit;
