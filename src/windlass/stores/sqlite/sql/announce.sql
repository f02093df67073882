-- announce: add an ended task that still has dependents to `ended`, so that its edges are resolved even if this process
-- dies.
-- batch: parent blob, how text
INSERT INTO ended (parent, how)
SELECT :parent, :how
 WHERE EXISTS (SELECT 1 FROM edge AS e WHERE e.parent = :parent AND e.resolved = 0)
    ON CONFLICT (parent) DO UPDATE SET how = excluded.how, after = excluded.after
RETURNING parent;
