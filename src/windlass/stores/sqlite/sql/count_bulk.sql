-- count_bulk: how many tasks of an operation are at a stage.
SELECT count(*) FROM bulk_task WHERE bulk = :bulk AND stage = :stage;
