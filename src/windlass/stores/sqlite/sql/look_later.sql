-- look_later: keep a lock of unique tasks that have not ended for a while longer.
-- batch: id blob
UPDATE unique_lock SET look = :now + :wait WHERE id = :id;
