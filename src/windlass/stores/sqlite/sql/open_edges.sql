-- open_edges: who is still to be told, at most so many.
-- batch: parent blob, after blob
SELECT e.parent, e.child FROM edge AS e
 WHERE e.parent = :parent AND e.child > :after AND e.resolved = 0
 ORDER BY e.child
 LIMIT :limit;
