-- take_joining: take charge of looking at these.
-- batch: child uuid
DELETE FROM windlass.joining WHERE child = ANY (:child::uuid[]) RETURNING child;
