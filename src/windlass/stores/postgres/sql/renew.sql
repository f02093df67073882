-- renew: keep a session, and so everything it holds. No row back means that it was swept. A text that is NULL stays.
UPDATE windlass.session
   SET renewed = (SELECT windlass.clock(:now)),
       about = coalesce(:about, about),
       workers = coalesce(:workers, workers)
 WHERE id = :session AND NOT lost
RETURNING id;
