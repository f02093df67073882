-- bump_fences: raise fences after a forced cancel, so that a running attempt can no longer report anything.
-- batch: id blob, fence integer
UPDATE task SET fence = :fence WHERE id = :id;
