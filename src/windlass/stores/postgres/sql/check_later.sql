-- check_later: leave the search for a cycle in these workflows to the sweep, or say that it was done.
-- batch: id uuid, later boolean
UPDATE windlass.workflow AS w SET check_later = i.later
  FROM unnest(:id::uuid[], :later::boolean[]) AS i (id, later)
 WHERE w.id = i.id;
