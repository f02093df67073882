-- audit_under: return a page of the audit log about subjects with a common prefix, newest first.
-- They start with :first, and :behind sorts after all of them.
SELECT number, at, subject, action, text, by, data
  FROM audit
 WHERE kind = :kind AND subject >= :first AND subject < :behind AND number < :before
 ORDER BY number DESC
 LIMIT :limit;
