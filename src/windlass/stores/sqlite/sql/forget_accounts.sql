-- forget_accounts: remove accounts of tenants that have had no tasks for a while and owe nothing.
DELETE FROM account
 WHERE NOT active AND at < :before AND tenant <> ''
   AND charged <= coalesce((SELECT own.charged FROM account AS own WHERE own.queue = account.queue AND own.tenant = ''), 0);
