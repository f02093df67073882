-- seal_workflow: seal a workflow.
UPDATE windlass.workflow SET sealed = true WHERE id = :id;
