-- bulk_stages: return the stages of tasks in an operation, without those that are not part of it.
-- batch: task uuid
SELECT task, stage FROM windlass.bulk_task WHERE bulk = :bulk AND task = ANY (:task::uuid[]);
