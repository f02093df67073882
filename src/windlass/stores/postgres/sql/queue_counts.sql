-- queue_counts: count the tasks of some queues that will run or are running, by state.
SELECT queue, state, sum(tasks)::bigint
  FROM windlass.count_delta
 WHERE queue = ANY (:queues::text[]) AND state IN ('runnable', 'leased', 'scheduled', 'retrying')
 GROUP BY queue, state;
