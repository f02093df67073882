-- workflow_edges: return what the waiting tasks of a workflow wait for.
SELECT e.child, e.parent
  FROM task AS b
  JOIN task AS t USING (id)
  JOIN edge AS e ON e.child = b.id
 WHERE b.workflow = :workflow AND b.workflow_tenant = :tenant AND t.state = 'waiting' AND e.resolved = 0;
