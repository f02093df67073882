-- accounts: return the accounts of a fair queue, or of all. No name of a queue sorts after the last character.
SELECT queue, tenant, charged, highest, mean, minute, hour, at, active
  FROM windlass.account
 WHERE queue >= coalesce(:queue::text, '') AND queue <= coalesce(:queue::text, chr(1114111))
 ORDER BY queue, tenant;
