-- drop_bulk_tasks: remove some tasks of an operation.
DELETE FROM bulk_task
 WHERE bulk = :bulk AND task IN (SELECT task FROM bulk_task WHERE bulk = :bulk ORDER BY task LIMIT :limit)
RETURNING task;
