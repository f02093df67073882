-- count_placeholders: count the open forward references of a workflow.
SELECT count(*) FROM windlass.placeholder WHERE workflow = :workflow;
