-- used_accounts: return the account of a fair queue, and those of the tenants whose attempts have ended since they were
-- written.
SELECT a.queue, a.tenant, a.charged, a.highest, a.mean, a.minute, a.hour, a.at, a.active
  FROM (SELECT '' AS tenant UNION SELECT tenant FROM usage WHERE queue = +:queue) AS used
 CROSS JOIN account AS a ON a.queue = +:queue AND a.tenant = used.tenant;
