-- bulk_page: some tasks of an operation that are at a stage, in id order.
-- The number in the inner LIMIT is the most that anybody asks for: of one that it does not know the server assumes that
-- it is a tenth of the table, and sorts all of it.
SELECT task
  FROM (SELECT task FROM windlass.bulk_task
         WHERE bulk = :bulk AND stage = :stage ORDER BY bulk, stage, task LIMIT 500) AS page
 ORDER BY task LIMIT :limit;
