-- prerequisites: return the prerequisites of a task, resolved or not.
SELECT e.parent, p.state, e.resolved
  FROM edge AS e LEFT JOIN task AS p ON p.id = e.parent
 WHERE e.child = :task AND NOT EXISTS (SELECT 1 FROM workflow AS w WHERE w.id = e.parent)
 ORDER BY e.parent LIMIT :limit;
