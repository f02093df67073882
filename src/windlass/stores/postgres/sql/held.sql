-- held: what a session holds.
SELECT id FROM windlass.task WHERE session = :session AND state = 'leased' LIMIT :limit;
