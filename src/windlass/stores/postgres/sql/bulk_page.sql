-- bulk_page: return some tasks of an operation at a stage after one of them, in id order.
-- The constant in the inner LIMIT is the largest limit in use. For an unknown limit the server would assume a tenth of
-- the table and sort the whole table.
SELECT task
  FROM (SELECT task FROM windlass.bulk_task
         WHERE bulk = :bulk AND stage = :stage AND task > :after::uuid ORDER BY bulk, stage, task LIMIT 500) AS page
 ORDER BY task LIMIT :limit;
