-- next_accounts: return the active accounts of a fair queue that were charged least, after one of them.
SELECT queue, tenant, charged, highest, mean, minute, hour, at, active
  FROM account
 WHERE queue = +:queue AND active AND (charged, tenant) > (+:charged, +:tenant)
 ORDER BY charged, tenant
 LIMIT +:limit;
