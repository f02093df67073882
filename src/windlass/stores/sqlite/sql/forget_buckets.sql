-- forget_buckets: remove buckets that are full.
DELETE FROM bucket WHERE full_at <= :now;
