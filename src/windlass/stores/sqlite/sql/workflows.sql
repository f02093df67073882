-- workflows: return the options of a workflow of a submit.
-- batch: id blob
SELECT id, sealed, forward FROM workflow WHERE id = :id;
