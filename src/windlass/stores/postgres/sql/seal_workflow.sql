-- seal_workflow: let a workflow run.
UPDATE windlass.workflow SET sealed = true WHERE id = :id;
