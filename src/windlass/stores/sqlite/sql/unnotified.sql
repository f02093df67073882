-- unnotified: whether somebody still waits for this end.
-- batch: id blob
SELECT :id WHERE EXISTS (SELECT 1 FROM edge AS e WHERE e.parent = :id AND e.resolved = 0);
