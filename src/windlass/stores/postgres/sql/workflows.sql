-- workflows: return the options of the workflows of a submit, without locks, to see whether locks are needed.
-- batch: id uuid
SELECT id, sealed, forward FROM windlass.workflow WHERE id = ANY (:id::uuid[]);
