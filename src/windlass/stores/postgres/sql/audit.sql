-- audit: return a page of the audit log, newest first.
SELECT number, at, subject, action, text, by, data
  FROM windlass.audit
 WHERE number < :before::bigint
 ORDER BY number DESC
 LIMIT :limit;
