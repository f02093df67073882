-- take_joining: remove and return tasks to check again.
-- batch: child blob
DELETE FROM joining WHERE child = :child RETURNING child;
