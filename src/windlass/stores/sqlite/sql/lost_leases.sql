-- lost_leases: what lost sessions hold. Looked for in every sweep as long as the session is remembered, because a
-- claim that was under way when its session was marked may commit after it.
-- moves: leased -> runnable | failed | cancelled | expired
SELECT t.id, t.session, b.rules
  FROM session AS s JOIN task AS t ON t.session = s.id AND t.state = 'leased'
  JOIN body AS b ON b.id = t.id
 WHERE s.lost
 LIMIT :limit;
