-- note: append entries to the audit log, in order.
-- batch: kind text, subject text, action text, text text, by text, data text
INSERT INTO windlass.audit (at, kind, subject, action, text, by, data)
SELECT (SELECT windlass.clock(:now)), i.kind, i.subject, i.action, i.text, i.by, i.data
  FROM unnest(:kind::text[], :subject::text[], :action::text[], :text::text[], :by::text[], :data::text[])
       WITH ORDINALITY AS i (kind, subject, action, text, by, data, nth)
 ORDER BY i.nth;
