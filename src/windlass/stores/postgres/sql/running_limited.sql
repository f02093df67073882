-- running_limited: count the leases for limits by queue, tenant, handler and key of a limit.
SELECT queue, tenant, handler, limit_key, count(*) FROM windlass.leased WHERE limited
 GROUP BY queue, tenant, handler, limit_key;
