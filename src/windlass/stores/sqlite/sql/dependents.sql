-- dependents: what waits for a task, or has waited for it.
SELECT e.child, c.state, e.resolved
  FROM edge AS e JOIN task AS c ON c.id = e.child
 WHERE e.parent = :task
 ORDER BY e.child LIMIT :limit;
