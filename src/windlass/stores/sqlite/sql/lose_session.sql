-- lose_session: end a session. From here on it can neither claim nor renew.
UPDATE session SET lost = 1 WHERE id = :session;
