-- queue_counts: how many tasks of some queues are in nobody's hands but will be run, or are being run.
SELECT queue, state, sum(tasks)::bigint
  FROM windlass.tally
 WHERE queue = ANY (:queues::text[]) AND state IN ('runnable', 'leased', 'scheduled', 'retrying')
 GROUP BY queue, state;
