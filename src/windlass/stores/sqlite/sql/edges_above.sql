-- edges_above: return the open edges of a task to its prerequisites.
-- batch: child blob
SELECT child, parent FROM edge WHERE child = :child AND resolved = 0;
