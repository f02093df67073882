-- step_edges: return edges between steps of a workflow, after a given one. A step without edges has a row with NULL.
SELECT step.submitted, step.id, above.parent
  FROM (SELECT submitted, id
          FROM windlass.task
         WHERE workflow = :workflow AND workflow_tenant = :tenant
           AND (submitted, id) >= (:submitted::bigint, :child::uuid)
         ORDER BY submitted, id
         LIMIT :limit::bigint + 1) AS step
  LEFT JOIN LATERAL
       (SELECT e.parent
          FROM windlass.edge AS e
         CROSS JOIN LATERAL (SELECT workflow, workflow_tenant FROM windlass.task WHERE id = e.parent OFFSET 0) AS p
         WHERE e.child = step.id
           AND ((step.submitted, step.id) > (:submitted::bigint, :child::uuid) OR e.parent > :parent::uuid)
           AND p.workflow = :workflow AND p.workflow_tenant = :tenant
         ORDER BY e.parent
         LIMIT :limit) AS above ON true
 WHERE (step.submitted, step.id) > (:submitted::bigint, :child::uuid) OR above.parent IS NOT NULL
 ORDER BY step.submitted, step.id, above.parent
 LIMIT :limit;
