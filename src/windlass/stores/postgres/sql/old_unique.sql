-- old_unique: lock the rows of unique tasks that may be free, and return which task holds each. A second statement reads
-- its state, so that it sees what was committed before the row was locked.
SELECT id, task FROM windlass.unique_lock WHERE look <= windlass.clock(:now) ORDER BY look LIMIT :limit
   FOR UPDATE SKIP LOCKED;
