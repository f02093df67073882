-- check_later: make the sweep search workflows for cycles, or record that it has.
-- batch: id uuid, later boolean
UPDATE windlass.workflow AS w SET check_later = i.later
  FROM unnest(:id::uuid[], :later::boolean[]) AS i (id, later)
 WHERE w.id = i.id;
