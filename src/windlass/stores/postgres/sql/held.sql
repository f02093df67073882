-- held: return the tasks that a session holds, with their rules.
SELECT t.id, b.rules
  FROM windlass.task AS t JOIN windlass.body AS b ON b.id = t.id
 WHERE t.session = :session AND t.state = 'leased'
 LIMIT :limit;
