-- submit_edges: insert the edges of new tasks.
-- batch: child blob, parent blob, resolved integer
INSERT INTO edge (child, parent, resolved)
VALUES (:child, :parent, :resolved);
