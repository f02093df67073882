-- bump_fences: after a forced cancel, so that the attempt, should it still run, can no longer report anything.
-- batch: id blob, fence integer
UPDATE task SET fence = :fence WHERE id = :id;
