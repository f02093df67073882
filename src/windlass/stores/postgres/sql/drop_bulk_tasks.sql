-- drop_bulk_tasks: forget some of the tasks of an operation.
DELETE FROM windlass.bulk_task
 WHERE bulk = :bulk AND task IN (SELECT task FROM windlass.bulk_task WHERE bulk = :bulk ORDER BY task LIMIT :limit)
RETURNING task;
