-- count_bulk: count the tasks of an operation at a stage.
SELECT count(*) FROM windlass.bulk_task WHERE bulk = :bulk AND stage = :stage;
