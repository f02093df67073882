-- buckets: return when the buckets of some rates are full again.
-- batch: name text
SELECT name, full_at FROM windlass.bucket WHERE name = ANY (:name::text[]);
