-- take_ended: lock ended tasks to resolve their edges.
-- batch: parent blob
SELECT parent, how, after FROM ended WHERE parent = :parent;
