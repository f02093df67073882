-- audit: return a page of the audit log, newest first.
SELECT number, at, subject, action, text, by, data
  FROM audit
 WHERE number < :before
 ORDER BY number DESC
 LIMIT :limit;
