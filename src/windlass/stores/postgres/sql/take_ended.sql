-- take_ended: take charge of telling the dependents of these.
-- batch: parent uuid
SELECT parent, how, after FROM windlass.ended
 WHERE parent = ANY (:parent::uuid[])
 ORDER BY parent
   FOR UPDATE SKIP LOCKED;
