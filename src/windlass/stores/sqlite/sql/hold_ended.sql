-- hold_ended: return a row if the edges of this task are not all resolved.
-- batch: parent blob
SELECT parent FROM ended WHERE parent = :parent;
