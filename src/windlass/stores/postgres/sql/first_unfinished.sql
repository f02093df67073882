-- first_unfinished: return the first unfinished step of a workflow between two of them. OFFSET 0 as in `resolved_edges`.
SELECT b.submitted, b.id
  FROM windlass.task AS b
 CROSS JOIN LATERAL (SELECT finished FROM windlass.current_task WHERE current_task.id = b.id OFFSET 0) AS t
 WHERE b.workflow = :workflow AND b.workflow_tenant = :tenant
   AND (b.submitted, b.id) > (:submitted::bigint, :id::uuid)
   AND (b.submitted, b.id) <= (:end::bigint, :end_id::uuid)
   AND t.finished IS NULL
 ORDER BY b.submitted, b.id
 LIMIT 1;
