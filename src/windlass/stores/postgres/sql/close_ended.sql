-- close_ended: everyone has been told.
-- batch: parent uuid
DELETE FROM windlass.ended WHERE parent = ANY (:parent::uuid[]);
