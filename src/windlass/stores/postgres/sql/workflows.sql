-- workflows: how the workflows of a submit were opened. No lock: a look, to see whether one is needed.
-- batch: id uuid
SELECT id, sealed, forward FROM windlass.workflow WHERE id = ANY (:id::uuid[]);
