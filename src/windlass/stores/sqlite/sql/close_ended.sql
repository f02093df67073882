-- close_ended: everyone has been told.
-- batch: parent blob
DELETE FROM ended WHERE parent = :parent;
