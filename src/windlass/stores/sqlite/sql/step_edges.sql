-- step_edges: return edges between steps of a workflow, after a given one. A step without edges has a row with NULL.
SELECT step.submitted, step.id, e.parent
  FROM (SELECT submitted, id
          FROM task
         WHERE workflow = :workflow AND workflow_tenant = :tenant
           AND (submitted, id) >= (:submitted, :child)
         ORDER BY submitted, id
         LIMIT :limit + 1) AS step
  LEFT JOIN edge AS e
    ON e.child = step.id AND EXISTS (SELECT 1 FROM task AS p WHERE p.id = e.parent
                                        AND +p.workflow = :workflow AND +p.workflow_tenant = :tenant)
 WHERE (step.submitted, step.id) > (:submitted, :child) OR e.parent > :parent
 ORDER BY step.submitted, step.id, e.parent
 LIMIT :limit;
