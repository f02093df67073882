-- lost_leases: return the tasks that lost and closed sessions hold, and whether the session was closed.
-- Every sweep looks for them as long as the session is stored, because a claim that was running when its session was
-- marked may commit later, and because a node that closes its session may end before it has released what it holds.
-- moves: leased -> runnable | failed | cancelled | expired
SELECT l.id, l.session, t.rules, s.closed
  FROM leased AS l CROSS JOIN task AS t ON t.id = l.id CROSS JOIN session AS s ON s.id = l.session
 WHERE l.session IN (SELECT id FROM session WHERE lost)
 LIMIT :limit;
