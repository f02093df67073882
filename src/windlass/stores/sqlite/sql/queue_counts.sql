-- queue_counts: how many tasks of some queues are in nobody's hands but will be run, or are being run.
SELECT queue, state, sum(tasks)
  FROM tally
 WHERE queue IN (SELECT value FROM json_each(:queues)) AND state IN ('runnable', 'leased', 'scheduled', 'retrying')
 GROUP BY queue, state;
