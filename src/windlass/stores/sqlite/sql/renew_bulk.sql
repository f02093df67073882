-- renew_bulk: renew an operation and lock it until the commit.
UPDATE bulk SET expires = :now + :patience WHERE id = :bulk AND action = :action RETURNING id;
