-- bulk_page: return some tasks of an operation at a stage after one of them, in id order.
SELECT task FROM bulk_task WHERE bulk = :bulk AND stage = :stage AND task > :after ORDER BY task LIMIT :limit;
