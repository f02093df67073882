-- mark_bulk_tasks: move tasks of an operation to a stage.
-- batch: task uuid
UPDATE windlass.bulk_task SET stage = :stage WHERE bulk = :bulk AND task = ANY (:task::uuid[]);
