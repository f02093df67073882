-- leases_without_session: return leased tasks whose session does not exist, which no sweep would ever find.
SELECT t.id, count(*) OVER ()
  FROM task AS t
 WHERE t.state = 'leased' AND NOT EXISTS (SELECT 1 FROM session AS s WHERE s.id = t.session)
 LIMIT 5;
