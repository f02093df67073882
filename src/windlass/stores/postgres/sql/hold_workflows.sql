-- hold_workflows: return the options of workflows, and keep them from being sealed until this submit is committed.
-- batch: id uuid
SELECT id, sealed, forward FROM windlass.workflow WHERE id = ANY (:id::uuid[]) ORDER BY id FOR SHARE;
