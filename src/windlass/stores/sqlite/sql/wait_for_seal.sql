-- wait_for_seal: make a task wait for the seal of its workflow. Returns it if it did not wait for it before.
-- batch: child blob, parent blob
INSERT INTO edge (child, parent, resolved) VALUES (:child, :parent, false)
    ON CONFLICT (child, parent) DO NOTHING
RETURNING child;
