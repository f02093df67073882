-- old_unique: return the locks of unique tasks that may be free, and which task holds each.
SELECT id, task FROM unique_lock WHERE look <= :now ORDER BY look LIMIT :limit;
