-- submit_edges: insert the edges of new tasks.
-- batch: child uuid, parent uuid, resolved boolean
INSERT INTO windlass.edge (child, parent, resolved)
SELECT * FROM unnest(:child::uuid[], :parent::uuid[], :resolved::boolean[]);
