-- workflow_placeholders: the forward references of a workflow that are open.
SELECT id FROM windlass.placeholder WHERE workflow = :workflow ORDER BY id;
