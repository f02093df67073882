-- forget_unique: delete a lock of unique tasks.
-- batch: id blob
DELETE FROM unique_lock WHERE id = :id;
