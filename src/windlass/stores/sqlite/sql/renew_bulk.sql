-- renew_bulk: say that somebody is still at work on an operation. Whoever has said so is alone with it until the commit.
UPDATE bulk SET expires = :now + :patience WHERE id = :bulk AND action = :action RETURNING id;
