-- renew: renew a session and its leases. Returns no row if it is lost. A text that is NULL stays.
UPDATE session
   SET renewed = :now, about = coalesce(:about, about), workers = coalesce(:workers, workers)
 WHERE id = :session AND lost = 0
RETURNING id;
