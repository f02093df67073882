-- renew_bulk: say that somebody is still at work on an operation. Whoever has said so is alone with it until the commit.
UPDATE windlass.bulk SET expires = windlass.clock(:now) + :patience::bigint WHERE id = :bulk AND action = :action RETURNING id;
