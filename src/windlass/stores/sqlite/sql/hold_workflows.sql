-- hold_workflows: return the options of workflows. With one writer at a time, no lock is needed.
-- batch: id blob
SELECT id, sealed, forward FROM workflow WHERE id = :id;
