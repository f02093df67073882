-- seal_workflow: let a workflow run.
UPDATE workflow SET sealed = 1 WHERE id = :id;
