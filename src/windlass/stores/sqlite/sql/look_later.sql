-- look_later: keep a lock of unique tasks that are still queued for a while.
-- batch: id blob
UPDATE unique_lock SET look = :now + :wait WHERE id = :id;
