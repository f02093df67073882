-- held: return the tasks that a session holds, with their rules.
SELECT t.id, b.rules
  FROM task AS t JOIN body AS b ON b.id = t.id
 WHERE t.session = :session AND t.state = 'leased'
 LIMIT :limit;
