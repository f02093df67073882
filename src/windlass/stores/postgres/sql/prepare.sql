-- prepare: what a submit needs to know first: the present moment, and the settings of its queues.
-- The transaction gets its number here, before any later statement reads which lot is open: so whoever closes that lot
-- knows whom to wait for.
SELECT clock.now, q.name, q.strategy, q.horizon, q.step, q.paused, q.paused_by, q.paused_why,
       q.max_waiting, q.max_leased, q.weight, q.fair
  FROM (SELECT windlass.clock(:now) AS now, pg_current_xact_id()) AS clock
  LEFT JOIN windlass.queue AS q ON q.name = ANY (:queues::text[]);
