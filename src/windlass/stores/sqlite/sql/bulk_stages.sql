-- bulk_stages: at what stage of an operation this task is.
-- batch: task blob
SELECT task, stage FROM bulk_task WHERE bulk = :bulk AND task = :task;
