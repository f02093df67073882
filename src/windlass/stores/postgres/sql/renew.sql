-- renew: keep a session, and so everything it holds. No row back means that it was swept.
UPDATE windlass.session SET renewed = (SELECT windlass.clock(:now)) WHERE id = :session AND NOT lost RETURNING id;
