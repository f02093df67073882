-- hold_ended: which of these have dependents that were not told yet. Whoever tells them is waited for, and stopped.
-- batch: parent uuid
SELECT parent FROM windlass.ended WHERE parent = ANY (:parent::uuid[]) ORDER BY parent FOR UPDATE;
