-- audit_under: a page of the audit log about all subjects of a kind that begin alike, newest first.
-- They begin with `first`, and `behind` comes after all that do. The kind is written as a range, as in `audit_of`.
SELECT number, at, subject, action, text, by, data
  FROM windlass.audit
 WHERE kind >= :kind AND (kind, number) < (:kind, :before::bigint) AND subject >= :first AND subject < :behind
 ORDER BY kind DESC, number DESC
 LIMIT :limit;
