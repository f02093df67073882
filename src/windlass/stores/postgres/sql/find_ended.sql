-- find_ended: return those of these tasks whose edges are not all resolved.
-- batch: parent uuid
SELECT parent FROM windlass.ended WHERE parent = ANY (:parent::uuid[]);
