-- seal_workflow: seal a workflow.
UPDATE workflow SET sealed = 1 WHERE id = :id;
