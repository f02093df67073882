-- pending_usage: return the attempts of a fair queue that have ended, or of all, which no claim has added up yet.
SELECT queue, tenant, ran, charge, attempts, at
  FROM windlass.usage
 WHERE queue >= coalesce(:queue::text, '') AND queue <= coalesce(:queue::text, chr(1114111));
