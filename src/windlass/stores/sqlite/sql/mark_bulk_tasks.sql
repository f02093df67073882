-- mark_bulk_tasks: move tasks of an operation to a stage.
-- batch: task blob
UPDATE bulk_task SET stage = :stage WHERE bulk = :bulk AND task = :task;
