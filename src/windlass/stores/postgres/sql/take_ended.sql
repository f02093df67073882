-- take_ended: lock ended tasks to resolve their edges.
-- batch: parent uuid
SELECT parent, how, after FROM windlass.ended
 WHERE parent = ANY (:parent::uuid[])
 ORDER BY parent
   FOR UPDATE SKIP LOCKED;
