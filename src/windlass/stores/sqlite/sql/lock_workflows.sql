-- lock_workflows: return the options of workflows with forward references.
-- batch: id blob
SELECT id, sealed, forward FROM workflow WHERE id = :id;
