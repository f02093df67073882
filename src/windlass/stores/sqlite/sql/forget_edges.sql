-- forget_edges: remove the edges of removed tasks, both ways; one that came meanwhile and is still open stays, and is
-- found to lead nowhere when its task is adopted.
-- batch: id blob
DELETE FROM edge WHERE child = :id OR (parent = :id AND resolved = 1);
