-- bump_fences: raise fences after a forced cancel, so that a running attempt can no longer report anything.
-- batch: id uuid, fence bigint
UPDATE windlass.task AS t SET fence = i.fence
  FROM unnest(:id::uuid[], :fence::bigint[]) AS i (id, fence)
 WHERE t.id = i.id;
