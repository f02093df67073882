-- lock_workflows: the same for workflows with forward references: one submit at a time, because two that each fill a
-- placeholder could close a cycle that neither of them sees.
-- batch: id uuid
SELECT id, sealed, forward FROM windlass.workflow WHERE id = ANY (:id::uuid[]) ORDER BY id FOR UPDATE;
