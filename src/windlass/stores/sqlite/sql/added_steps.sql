-- added_steps: return what a task that continued waits for, with its rules, which name the task that added it.
-- batch: id blob
SELECT t.id, p.id, p.rules
  FROM task AS t
 CROSS JOIN edge AS e ON e.child = t.id AND e.resolved = 0
 CROSS JOIN task AS p ON p.id = e.parent
 WHERE t.id = :id AND t.state = 'waiting' AND t.fence > 0 AND p.rules IS NOT NULL;
