-- queued: how many unfinished tasks of a queue are in nobody's hands, for its `max_waiting`.
SELECT coalesce(sum(tasks), 0)::bigint
  FROM windlass.tally
 WHERE queue = :queue AND state IN ('waiting', 'scheduled', 'runnable', 'retrying');
