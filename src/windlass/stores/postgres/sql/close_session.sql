-- close_session: mark a session as closed. From then on it can neither claim nor renew.
UPDATE windlass.session SET lost = true, closed = true WHERE id = :session;
