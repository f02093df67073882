-- lost_leases: return the tasks that lost sessions hold.
-- Every sweep looks for them as long as the session is stored, because a claim that was running when its session was
-- marked may commit later.
-- moves: leased -> runnable | failed | cancelled | expired
SELECT t.id, t.session, b.rules
  FROM windlass.session AS s JOIN windlass.task AS t ON t.session = s.id AND t.state = 'leased'
  JOIN windlass.body AS b ON b.id = t.id
 WHERE s.lost
 LIMIT :limit;
