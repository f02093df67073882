-- close_session: mark a session as closed. From then on it can neither claim nor renew.
UPDATE session SET lost = 1, closed = 1 WHERE id = :session;
