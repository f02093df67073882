-- submit_joining: new tasks whose prerequisites must be looked at again once the caller's transaction has committed.
-- batch: child blob
INSERT INTO joining (child) VALUES (:child);
