-- find_ended: return a task if its edges are not all resolved.
-- batch: parent blob
SELECT parent FROM ended WHERE parent = :parent;
