-- reopen_edges: mark edges as unresolved again.
-- batch: child blob, parent blob
UPDATE edge SET resolved = 0 WHERE child = :child AND parent = :parent;
