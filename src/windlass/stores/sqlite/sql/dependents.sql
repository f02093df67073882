-- dependents: return the dependents of a task, resolved or not.
SELECT e.child, c.state, e.resolved
  FROM edge AS e JOIN current_task AS c ON c.id = e.child
 WHERE e.parent = :task
 ORDER BY e.child LIMIT :limit;
