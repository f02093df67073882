-- renew: keep a session, and so everything it holds. No row back means that it was swept.
UPDATE session SET renewed = :now WHERE id = :session AND lost = 0 RETURNING id;
