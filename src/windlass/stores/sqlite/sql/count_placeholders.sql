-- count_placeholders: how many forward references of a workflow are open.
SELECT count(*) FROM placeholder WHERE workflow = :workflow;
