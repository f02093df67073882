-- count_placeholders: how many forward references of a workflow are open.
SELECT count(*) FROM windlass.placeholder WHERE workflow = :workflow;
