-- workflow_placeholders: return the open forward references of a workflow.
SELECT id FROM windlass.placeholder WHERE workflow = :workflow ORDER BY id;
