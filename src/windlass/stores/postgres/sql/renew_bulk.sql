-- renew_bulk: renew an operation and lock it until the commit.
UPDATE windlass.bulk SET expires = windlass.clock(:now) + :patience::bigint WHERE id = :bulk AND action = :action RETURNING id;
