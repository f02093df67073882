-- look_later: set when to look again whether a lock of unique tasks is free.
-- batch: id blob, wait integer
UPDATE unique_lock SET look = :now + :wait WHERE id = :id;
