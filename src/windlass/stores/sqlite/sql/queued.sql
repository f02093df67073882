-- queued: count the unfinished, unleased tasks of a queue, for its `max_waiting`.
SELECT coalesce(sum(tasks), 0)
  FROM tally
 WHERE queue = :queue AND state IN ('waiting', 'scheduled', 'runnable', 'retrying');
