-- wait_again: add edges to a task that continues. It may have waited for the same task before.
-- batch: child uuid, parent uuid, resolved boolean
INSERT INTO windlass.edge (child, parent, resolved)
SELECT * FROM unnest(:child::uuid[], :parent::uuid[], :resolved::boolean[])
    ON CONFLICT (child, parent) DO UPDATE SET resolved = excluded.resolved;
