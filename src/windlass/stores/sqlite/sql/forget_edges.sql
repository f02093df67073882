-- forget_edges: remove the edges of removed tasks, in both directions.
-- An open edge that was added meanwhile stays; it is resolved as missing when its task is checked again (`joining`).
-- batch: id blob
DELETE FROM edge WHERE child = :id OR (parent = :id AND resolved = 1);
