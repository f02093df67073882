-- renew: renew a session and its leases. Returns no row if it is lost. A text that is NULL stays.
UPDATE windlass.session
   SET renewed = (SELECT windlass.clock(:now)),
       about = coalesce(:about, about),
       workers = coalesce(:workers, workers)
 WHERE id = :session AND NOT lost
RETURNING id;
