-- audit_under: return a page of the audit log about subjects with a common prefix, newest first.
-- They start with :first, and :behind sorts after all of them. The kind is a range, as in `audit_of`.
SELECT number, at, subject, action, text, by, data
  FROM windlass.audit
 WHERE kind >= :kind AND (kind, number) < (:kind, :before::bigint) AND subject >= :first AND subject < :behind
 ORDER BY kind DESC, number DESC
 LIMIT :limit;
