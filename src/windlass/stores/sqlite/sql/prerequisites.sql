-- prerequisites: return the prerequisites of a task, resolved or not.
-- A subquery, because SQLite would compute the whole view for a LEFT JOIN to it.
SELECT e.parent, (SELECT p.state FROM current_task AS p WHERE p.id = e.parent), e.resolved
  FROM edge AS e
 WHERE e.child = :task AND NOT EXISTS (SELECT 1 FROM workflow AS w WHERE w.id = e.parent)
 ORDER BY e.parent LIMIT :limit;
