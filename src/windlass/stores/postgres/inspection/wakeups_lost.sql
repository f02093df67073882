-- wakeups_lost: return open edges whose parent has ended and is not in `ended`, so that nobody would resolve them.
SELECT e.child, count(*) OVER ()
  FROM windlass.edge AS e JOIN windlass.current_task AS t ON t.id = e.parent
 WHERE NOT e.resolved AND t.finished IS NOT NULL
   AND NOT EXISTS (SELECT 1 FROM windlass.ended AS d WHERE d.parent = e.parent)
   AND NOT EXISTS (SELECT 1 FROM windlass.joining AS j WHERE j.child = e.child)
   AND NOT EXISTS (SELECT 1 FROM windlass.bulk_task AS b WHERE b.task = e.parent)
 LIMIT 5;
