-- renew: keep a session, and so everything it holds. No row back means that it was swept. A text that is NULL stays.
UPDATE session
   SET renewed = :now, about = coalesce(:about, about), workers = coalesce(:workers, workers)
 WHERE id = :session AND lost = 0
RETURNING id;
