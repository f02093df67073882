-- step_scanned: where a look at so many steps of a workflow ends, and the step behind it, if there is one.
SELECT submitted, id
  FROM windlass.body
 WHERE workflow = :workflow AND workflow_tenant = :tenant
   AND (submitted, id) > (:submitted::bigint, :id::uuid)
 ORDER BY submitted, id
 LIMIT 2 OFFSET :skip;
