-- accounts: return the accounts of a fair queue, or of all. No name of a queue sorts after the last character.
SELECT queue, tenant, charged, highest, mean, minute, hour, at, active
  FROM account
 WHERE queue >= coalesce(:queue, '') AND queue <= coalesce(:queue, char(1114111))
 ORDER BY queue, tenant;
