-- look_later: set when to look again whether locks of unique tasks are free.
-- batch: id uuid, wait bigint
UPDATE windlass.unique_lock AS l SET look = windlass.clock(:now) + i.wait
  FROM unnest(:id::uuid[], :wait::bigint[]) AS i (id, wait) WHERE l.id = i.id;
