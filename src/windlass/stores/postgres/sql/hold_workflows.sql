-- hold_workflows: the same, kept from being sealed until this submit has committed.
-- batch: id uuid
SELECT id, sealed, forward FROM windlass.workflow WHERE id = ANY (:id::uuid[]) ORDER BY id FOR SHARE;
