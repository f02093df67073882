-- step_scanned: return the last of the next steps of a workflow, and the one after it, if there is one.
SELECT submitted, id
  FROM windlass.task
 WHERE workflow = :workflow AND workflow_tenant = :tenant
   AND (submitted, id) > (:submitted::bigint, :id::uuid)
 ORDER BY submitted, id
 LIMIT 2 OFFSET :skip;
