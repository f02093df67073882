-- leases_without_session: return leased tasks whose session does not exist, which no sweep would ever find.
SELECT l.id, count(*) OVER ()
  FROM windlass.leased AS l
 WHERE NOT EXISTS (SELECT 1 FROM windlass.session AS s WHERE s.id = l.session)
 LIMIT 5;
