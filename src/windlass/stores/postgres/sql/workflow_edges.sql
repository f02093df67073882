-- workflow_edges: return what the waiting tasks of a workflow wait for. OFFSET 0 as in `resolved_edges`.
SELECT e.child, e.parent
  FROM windlass.task AS b
 CROSS JOIN LATERAL (SELECT state FROM windlass.task WHERE task.id = b.id OFFSET 0) AS t
 CROSS JOIN LATERAL (
       SELECT child, parent FROM windlass.edge WHERE edge.child = b.id AND NOT resolved OFFSET 0) AS e
 WHERE b.workflow = :workflow AND b.workflow_tenant = :tenant AND t.state = 'waiting';
