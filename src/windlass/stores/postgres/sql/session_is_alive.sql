-- session_is_alive: return a row if the session may still claim.
SELECT id FROM windlass.session WHERE id = :session AND NOT lost;
