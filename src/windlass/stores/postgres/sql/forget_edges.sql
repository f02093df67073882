-- forget_edges: remove the edges of removed tasks, both ways; one that came meanwhile and is still open stays, and is
-- found to lead nowhere when its task is adopted.
-- batch: id uuid
DELETE FROM windlass.edge WHERE child = ANY (:id::uuid[]) OR (parent = ANY (:id::uuid[]) AND resolved);
