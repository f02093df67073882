-- held: what a session holds.
SELECT id FROM task WHERE session = :session AND state = 'leased' LIMIT :limit;
