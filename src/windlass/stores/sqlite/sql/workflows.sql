-- workflows: how a workflow of a submit was opened.
-- batch: id blob
SELECT id, sealed, forward FROM workflow WHERE id = :id;
