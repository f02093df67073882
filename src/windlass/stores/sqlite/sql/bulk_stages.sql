-- bulk_stages: return the stages of tasks in an operation, without those that are not part of it.
-- batch: task blob
SELECT task, stage FROM bulk_task WHERE bulk = :bulk AND task = :task;
