-- open_edges: return the unresolved edges of ended tasks, up to a limit for each.
-- batch: parent blob, after blob
SELECT e.parent, e.child FROM edge AS e
 WHERE e.parent = :parent AND e.child > :after AND e.resolved = 0
 ORDER BY e.child
 LIMIT :limit;
