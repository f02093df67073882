-- buckets: return when the bucket of a rate is full again.
-- batch: name text
SELECT name, full_at FROM bucket WHERE name = :name;
