-- look_later: keep locks of unique tasks that have not ended for a while longer.
-- batch: id uuid
UPDATE windlass.unique_lock AS l SET look = windlass.clock(:now) + :wait
  FROM unnest(:id::uuid[]) AS i (id) WHERE l.id = i.id;
