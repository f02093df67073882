-- open_among: return the task of an edge if that is unresolved.
-- batch: child blob, parent blob
SELECT child FROM edge WHERE child = :child AND parent = :parent AND resolved = 0;
