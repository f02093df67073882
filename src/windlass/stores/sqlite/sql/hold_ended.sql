-- hold_ended: whether this one has dependents that were not told yet.
-- batch: parent blob
SELECT parent FROM ended WHERE parent = :parent;
