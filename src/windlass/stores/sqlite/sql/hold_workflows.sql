-- hold_workflows: the same. SQLite has one writer at a time, so nothing more is needed to keep it as it is.
-- batch: id blob
SELECT id, sealed, forward FROM workflow WHERE id = :id;
