-- note: append entries to the audit log, in order.
-- batch: kind text, subject text, action text, text text, by text, data text
INSERT INTO audit (at, kind, subject, action, text, by, data)
VALUES (:now, :kind, :subject, :action, :text, :by, :data);
