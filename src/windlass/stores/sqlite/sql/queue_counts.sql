-- queue_counts: count the tasks of some queues that will run or are running, by state.
SELECT queue, state, sum(tasks)
  FROM count_delta
 WHERE queue IN (SELECT value FROM json_each(:queues)) AND state IN ('runnable', 'leased', 'scheduled', 'retrying')
 GROUP BY queue, state;
