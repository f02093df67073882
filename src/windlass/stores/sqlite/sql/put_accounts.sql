-- put_accounts: write an account of a fair queue.
-- batch: queue text, tenant text, charged integer, highest integer, mean integer, minute real, hour real,
--   at integer, active integer
INSERT INTO account (queue, tenant, charged, highest, mean, minute, hour, at, active)
VALUES (:queue, :tenant, :charged, :highest, :mean, :minute, :hour, :at, :active)
    ON CONFLICT (queue, tenant) DO UPDATE
   SET charged = excluded.charged, highest = excluded.highest, mean = excluded.mean,
       minute = excluded.minute, hour = excluded.hour, at = excluded.at, active = excluded.active;
