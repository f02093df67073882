-- resolve_edges: mark edges as resolved.
-- batch: child blob, parent blob
UPDATE edge SET resolved = 1 WHERE child = :child AND parent = :parent;
