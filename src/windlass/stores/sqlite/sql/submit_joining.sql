-- submit_joining: record new tasks whose prerequisites must be checked again after the commit of the caller's
-- transaction.
-- batch: child blob
INSERT INTO joining (child) VALUES (:child);
