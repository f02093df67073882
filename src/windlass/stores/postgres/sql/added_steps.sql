-- added_steps: return what tasks that continued wait for, with its rules, which name the task that added it.
-- OFFSET 0 forces lookups by id, as in `ancestors`.
-- batch: id uuid
SELECT i.id, p.id, p.rules
  FROM unnest(:id::uuid[]) AS i (id)
 CROSS JOIN LATERAL (
       SELECT FROM windlass.task AS t WHERE t.id = i.id AND t.state = 'waiting' AND t.fence > 0 OFFSET 0) AS t
 CROSS JOIN LATERAL (SELECT parent FROM windlass.edge AS e WHERE e.child = i.id AND NOT e.resolved OFFSET 0) AS e
 CROSS JOIN LATERAL (
       SELECT id, rules FROM windlass.task AS p WHERE p.id = e.parent AND p.rules IS NOT NULL OFFSET 0) AS p;
