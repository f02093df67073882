-- resolve_edges: this edge has been told.
-- batch: child blob, parent blob
UPDATE edge SET resolved = 1 WHERE child = :child AND parent = :parent;
