-- queued: count the unfinished, unleased tasks of a queue, for its `max_waiting`.
SELECT coalesce(sum(tasks), 0)
  FROM count_delta
 WHERE queue = :queue AND state IN ('waiting', 'scheduled', 'runnable', 'retrying');
