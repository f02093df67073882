-- bulk_page: some tasks of an operation that are at a stage, in id order.
SELECT task FROM windlass.bulk_task WHERE bulk = :bulk AND stage = :stage ORDER BY task LIMIT :limit;
