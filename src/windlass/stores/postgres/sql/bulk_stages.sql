-- bulk_stages: at what stage of an operation these tasks are; those that are no part of it are left out.
-- batch: task uuid
SELECT task, stage FROM windlass.bulk_task WHERE bulk = :bulk AND task = ANY (:task::uuid[]);
