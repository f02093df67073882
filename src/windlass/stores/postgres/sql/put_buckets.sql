-- put_buckets: write when the buckets of some rates are full again.
-- batch: name text, full_at bigint
INSERT INTO windlass.bucket (name, full_at) SELECT * FROM unnest(:name::text[], :full_at::bigint[])
    ON CONFLICT (name) DO UPDATE SET full_at = excluded.full_at;
