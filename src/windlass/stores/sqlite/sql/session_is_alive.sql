-- session_is_alive: return a row if the session may still claim.
SELECT id FROM session WHERE id = :session AND lost = 0;
