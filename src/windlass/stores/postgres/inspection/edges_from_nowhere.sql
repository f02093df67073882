-- edges_from_nowhere: return open edges whose parent is neither a task nor a placeholder nor a workflow.
SELECT e.child, count(*) OVER ()
  FROM windlass.edge AS e
 WHERE NOT e.resolved
   AND NOT EXISTS (SELECT 1 FROM windlass.task AS t WHERE t.id = e.parent)
   AND NOT EXISTS (SELECT 1 FROM windlass.placeholder AS p WHERE p.id = e.parent)
   AND NOT EXISTS (SELECT 1 FROM windlass.workflow AS w WHERE w.id = e.parent)
   AND NOT EXISTS (SELECT 1 FROM windlass.ended AS d WHERE d.parent = e.parent)
 LIMIT 5;
