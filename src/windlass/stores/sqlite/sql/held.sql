-- held: return the tasks that a session holds, with their rules.
SELECT l.id, t.rules
  FROM leased AS l CROSS JOIN task AS t ON t.id = l.id
 WHERE l.session = :session
 LIMIT :limit;
