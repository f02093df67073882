-- lock_workflows: the same, for workflows with forward references.
-- batch: id blob
SELECT id, sealed, forward FROM workflow WHERE id = :id;
