-- session_is_alive: a row when the session may still claim.
SELECT id FROM windlass.session WHERE id = :session AND NOT lost;
