-- first_unfinished: return the first unfinished step of a workflow between two of them.
SELECT b.submitted, b.id
  FROM task AS b JOIN current_task AS t USING (id)
 WHERE b.workflow = :workflow AND b.workflow_tenant = :tenant
   AND (b.submitted, b.id) > (:submitted, :id)
   AND (b.submitted, b.id) <= (:end, :end_id)
   AND t.finished IS NULL
 ORDER BY b.submitted, b.id
 LIMIT 1;
