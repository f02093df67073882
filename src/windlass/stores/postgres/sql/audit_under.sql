-- audit_under: a page of the audit log about all subjects of a kind that begin alike, newest first.
-- They begin with `first`, and `behind` comes after all that do.
SELECT number, at, subject, action, text, by, data
  FROM windlass.audit
 WHERE kind = :kind AND subject >= :first AND subject < :behind AND number < :before::bigint
 ORDER BY number DESC
 LIMIT :limit;
