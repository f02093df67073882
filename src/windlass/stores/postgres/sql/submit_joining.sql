-- submit_joining: new tasks whose prerequisites must be looked at again once the caller's transaction has committed.
-- batch: child uuid
INSERT INTO windlass.joining (child) SELECT * FROM unnest(:child::uuid[]);
