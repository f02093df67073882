-- take_joining: take charge of looking at these.
-- batch: child blob
DELETE FROM joining WHERE child = :child RETURNING child;
