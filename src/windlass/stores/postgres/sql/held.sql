-- held: return the tasks that a session holds, with their rules.
SELECT l.id, t.rules
  FROM (SELECT id FROM windlass.leased WHERE session = :session LIMIT :limit) AS l
 CROSS JOIN LATERAL (SELECT rules FROM windlass.task WHERE task.id = l.id OFFSET 0) AS t;
