-- submit_joining: record new tasks whose prerequisites must be checked again after the commit of the caller's
-- transaction.
-- batch: child uuid
INSERT INTO windlass.joining (child) SELECT * FROM unnest(:child::uuid[]);
