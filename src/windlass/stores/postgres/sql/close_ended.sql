-- close_ended: remove tasks from `ended` whose edges are all resolved.
-- batch: parent uuid
DELETE FROM windlass.ended WHERE parent = ANY (:parent::uuid[]);
