-- running: count the leases by queue, tenant, handler and key of a limit.
SELECT queue, tenant, handler, limit_key, count(*) FROM windlass.leased
 GROUP BY queue, tenant, handler, limit_key;
