-- resolved_edges: return the resolved edges of a task.
-- batch: child blob
SELECT child, parent FROM edge WHERE child = :child AND resolved = 1;
