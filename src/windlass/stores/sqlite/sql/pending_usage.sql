-- pending_usage: return the attempts of a fair queue that have ended, or of all, which no claim has added up yet.
SELECT queue, tenant, ran, charge, attempts, at
  FROM usage
 WHERE queue >= coalesce(:queue, '') AND queue <= coalesce(:queue, char(1114111));
