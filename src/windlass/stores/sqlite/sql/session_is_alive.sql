-- session_is_alive: a row when the session may still claim.
SELECT id FROM session WHERE id = :session AND lost = 0;
