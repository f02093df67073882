-- wait_for_seal: make tasks wait for the seal of their workflow. Returns those that did not wait for it before.
-- batch: child uuid, parent uuid
INSERT INTO windlass.edge (child, parent, resolved)
SELECT child, parent, false FROM unnest(:child::uuid[], :parent::uuid[]) AS i (child, parent)
    ON CONFLICT (child, parent) DO NOTHING
RETURNING child;
