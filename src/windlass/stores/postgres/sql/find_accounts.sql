-- find_accounts: return the accounts of some tenants.
-- batch: queue text, tenant text
SELECT a.queue, a.tenant, a.charged, a.highest, a.mean, a.minute, a.hour, a.at, a.active
  FROM unnest(:queue::text[], :tenant::text[]) AS i (queue, tenant)
 CROSS JOIN LATERAL (SELECT * FROM windlass.account AS a WHERE a.queue = i.queue AND a.tenant = i.tenant OFFSET 0) AS a;
