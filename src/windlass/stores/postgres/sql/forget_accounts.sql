-- forget_accounts: remove accounts of tenants that have had no tasks for a while and owe nothing.
DELETE FROM windlass.account AS a
 WHERE NOT a.active AND a.at < :before AND a.tenant <> ''
   AND a.charged <= coalesce((SELECT own.charged FROM windlass.account AS own
                               WHERE own.queue = a.queue AND own.tenant = ''), 0);
