-- submit_edges: what the new tasks wait for.
-- batch: child blob, parent blob, resolved integer
INSERT INTO edge (child, parent, resolved)
VALUES (:child, :parent, :resolved);
