-- unnotified: return a row if this task has unresolved edges.
-- batch: id blob
SELECT :id WHERE EXISTS (SELECT 1 FROM edge AS e WHERE e.parent = :id AND e.resolved = 0);
