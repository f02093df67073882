-- put_buckets: write when the bucket of a rate is full again.
-- batch: name text, full_at integer
INSERT INTO bucket (name, full_at) VALUES (:name, :full_at)
    ON CONFLICT (name) DO UPDATE SET full_at = excluded.full_at;
