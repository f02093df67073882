-- wait_again: add an edge to a task that continues. It may have waited for the same task before.
-- batch: child blob, parent blob, resolved integer
INSERT INTO edge (child, parent, resolved) VALUES (:child, :parent, :resolved)
    ON CONFLICT (child, parent) DO UPDATE SET resolved = excluded.resolved;
