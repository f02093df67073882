-- resolved_edges: what this task has waited for.
-- batch: child blob
SELECT child, parent FROM edge WHERE child = :child AND resolved = 1;
