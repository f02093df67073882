-- lose_session: end a session. From here on it can neither claim nor renew.
UPDATE windlass.session SET lost = true WHERE id = :session;
