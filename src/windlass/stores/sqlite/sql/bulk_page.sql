-- bulk_page: return some tasks of an operation at a stage, in id order.
SELECT task FROM bulk_task WHERE bulk = :bulk AND stage = :stage ORDER BY task LIMIT :limit;
