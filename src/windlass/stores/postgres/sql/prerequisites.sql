-- prerequisites: return the prerequisites of a task, resolved or not.
SELECT e.parent, p.state, e.resolved
  FROM windlass.edge AS e LEFT JOIN windlass.task AS p ON p.id = e.parent
 WHERE e.child = :task AND NOT EXISTS (SELECT FROM windlass.workflow AS w WHERE w.id = e.parent)
 ORDER BY e.parent LIMIT :limit;
