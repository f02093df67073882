-- lose_session: close a session. From then on it can neither claim nor renew.
UPDATE session SET lost = 1 WHERE id = :session;
