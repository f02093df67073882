-- prerequisites: return the prerequisites of a task, resolved or not.
SELECT e.parent, p.state, e.resolved
  FROM windlass.edge AS e
  LEFT JOIN LATERAL (SELECT state FROM windlass.current_task WHERE current_task.id = e.parent OFFSET 0) AS p ON true
 WHERE e.child = :task AND NOT EXISTS (SELECT FROM windlass.workflow AS w WHERE w.id = e.parent)
 ORDER BY e.parent LIMIT :limit;
