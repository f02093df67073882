-- prepare: what a submit needs to know first: the present moment, and the settings of its queues.
-- The transaction gets its number here, before any later statement reads which lot is open: so whoever closes that lot
-- knows whom to wait for. A caller's transaction with a snapshot of its own sees no lot opened since (`sees_commits`).
SELECT clock.now, clock.sees_commits, q.name, q.strategy, q.horizon, q.step, q.paused, q.paused_by, q.paused_why,
       q.max_waiting, q.max_leased, q.weight, q.fair
  FROM (SELECT windlass.clock(:now) AS now, pg_current_xact_id(),
               current_setting('transaction_isolation') = 'read committed' AS sees_commits) AS clock
  LEFT JOIN windlass.queue AS q ON q.name = ANY (:queues::text[]);
