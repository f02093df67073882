-- workflow_edges: what the waiting tasks of a workflow wait for.
SELECT e.child, e.parent
  FROM windlass.body AS b
  JOIN windlass.task AS t USING (id)
  JOIN windlass.edge AS e ON e.child = b.id
 WHERE b.workflow = :workflow AND b.workflow_tenant = :tenant AND t.state = 'waiting' AND NOT e.resolved;
