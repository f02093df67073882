-- count_unfinished: count the tasks of a queue that have not ended.
SELECT coalesce(sum(tasks), 0)
  FROM count_delta
 WHERE queue = :queue AND state NOT IN ('completed', 'failed', 'cancelled', 'expired');
