-- put_accounts: write accounts of fair queues, under `lock_claims`.
-- batch: queue text, tenant text, charged bigint, highest bigint, mean bigint, minute float8, hour float8,
--   at bigint, active boolean
INSERT INTO windlass.account (queue, tenant, charged, highest, mean, minute, hour, at, active)
SELECT queue, tenant, charged, highest, mean, minute, hour, at, active
  FROM unnest(:queue::text[], :tenant::text[], :charged::bigint[], :highest::bigint[], :mean::bigint[],
              :minute::float8[], :hour::float8[], :at::bigint[], :active::boolean[])
       AS i (queue, tenant, charged, highest, mean, minute, hour, at, active)
    ON CONFLICT (queue, tenant) DO UPDATE
   SET charged = excluded.charged, highest = excluded.highest, mean = excluded.mean,
       minute = excluded.minute, hour = excluded.hour, at = excluded.at, active = excluded.active;
