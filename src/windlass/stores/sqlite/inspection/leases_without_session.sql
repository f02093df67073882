-- leases_without_session: leased tasks whose session is not there, so that no sweep will ever find them.
SELECT t.id, count(*) OVER ()
  FROM task AS t
 WHERE t.state = 'leased' AND NOT EXISTS (SELECT 1 FROM session AS s WHERE s.id = t.session)
 LIMIT 5;
