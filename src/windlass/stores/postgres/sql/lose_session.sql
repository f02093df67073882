-- lose_session: close a session. From then on it can neither claim nor renew.
UPDATE windlass.session SET lost = true WHERE id = :session;
