-- forget_buckets: remove buckets that are full.
DELETE FROM windlass.bucket WHERE full_at <= (SELECT windlass.clock(:now));
