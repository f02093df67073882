-- close_ended: remove tasks from `ended` whose edges are all resolved.
-- batch: parent blob
DELETE FROM ended WHERE parent = :parent;
