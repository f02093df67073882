-- prepare: return the current time and the settings of the queues of a submit.
-- The transaction gets its id here, before a later statement reads which partition is open, so that the one who closes
-- the partition knows for whom to wait. A caller's transaction with its own snapshot does not see partitions opened
-- since (`sees_commits`).
SELECT clock.now, clock.sees_commits, q.name, q.strategy, q.horizon, q.step, q.paused, q.paused_by, q.paused_why,
       q.paused_until, q.max_waiting, q.weight, q.fair
  FROM (SELECT windlass.clock(:now) AS now, pg_current_xact_id(),
               current_setting('transaction_isolation') = 'read committed' AS sees_commits) AS clock
  LEFT JOIN windlass.queue AS q ON q.name = ANY (:queues::text[]);
