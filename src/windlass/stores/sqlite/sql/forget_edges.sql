-- forget_edges: remove the edges of removed tasks, both ways.
-- batch: id blob
DELETE FROM edge WHERE child = :id OR parent = :id;
