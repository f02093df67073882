-- forget_edges: remove the edges of removed tasks, both ways.
-- batch: id uuid
DELETE FROM windlass.edge WHERE child = ANY (:id::uuid[]) OR parent = ANY (:id::uuid[]);
