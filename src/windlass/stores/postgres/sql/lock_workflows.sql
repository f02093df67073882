-- lock_workflows: lock workflows with forward references: one submit at a time, because two that each replace a
-- placeholder could close a cycle that neither sees.
-- batch: id uuid
SELECT id, sealed, forward FROM windlass.workflow WHERE id = ANY (:id::uuid[]) ORDER BY id FOR UPDATE;
