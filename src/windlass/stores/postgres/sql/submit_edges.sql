-- submit_edges: what the new tasks wait for.
-- batch: child uuid, parent uuid, resolved boolean
INSERT INTO windlass.edge (child, parent, resolved)
SELECT * FROM unnest(:child::uuid[], :parent::uuid[], :resolved::boolean[]);
