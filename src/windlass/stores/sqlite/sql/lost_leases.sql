-- lost_leases: return the tasks that lost sessions hold.
-- Every sweep looks for them as long as the session is stored, because a claim that was running when its session was
-- marked may commit later.
-- moves: leased -> runnable | failed | cancelled | expired
SELECT l.id, l.session, t.rules
  FROM leased AS l CROSS JOIN task AS t ON t.id = l.id
 WHERE l.session IN (SELECT id FROM session WHERE lost)
 LIMIT :limit;
