-- take_joining: remove and return tasks to check again.
-- batch: child uuid
DELETE FROM windlass.joining WHERE child = ANY (:child::uuid[]) RETURNING child;
