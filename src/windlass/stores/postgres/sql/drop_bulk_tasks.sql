-- drop_bulk_tasks: remove some tasks of an operation. For the inner LIMIT see `bulk_page`.
DELETE FROM windlass.bulk_task
 WHERE bulk = :bulk
   AND task = ANY (ARRAY(
       SELECT task
         FROM (SELECT task FROM windlass.bulk_task WHERE bulk = :bulk ORDER BY bulk, task LIMIT 500) AS page
        LIMIT :limit))
RETURNING task;
