-- old_unique: lock the rows of unique tasks that may be free, and return which task holds each. Its state is read
-- afterward: until then another submit may have given the lock to a new task.
SELECT id, task FROM windlass.unique_lock WHERE look <= windlass.clock(:now) ORDER BY look LIMIT :limit
   FOR UPDATE SKIP LOCKED;
