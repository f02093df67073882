-- take_unique: give locks to other tasks.
-- batch: id uuid, task uuid, until bigint
UPDATE windlass.unique_lock AS l
   SET task = i.task, until = i.until, look = i.until
  FROM unnest(:id::uuid[], :task::uuid[], :until::bigint[]) AS i (id, task, until)
 WHERE l.id = i.id;
