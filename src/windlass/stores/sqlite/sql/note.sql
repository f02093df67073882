-- note: append an entry to the audit log.
-- batch: kind text, subject text, action text, text text, by text, data text
INSERT INTO audit (at, kind, subject, action, text, by, data)
VALUES (:now, :kind, :subject, :action, :text, :by, :data);
