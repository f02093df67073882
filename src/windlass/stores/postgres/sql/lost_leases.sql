-- lost_leases: return the tasks that lost and closed sessions hold, and whether the session was closed.
-- Every sweep looks for them as long as the session is stored, because a claim that was running when its session was
-- marked may commit later, and because a node that closes its session may end before it has released what it holds.
-- moves: leased -> runnable | failed | cancelled | expired
SELECT l.id, l.session, t.rules, s.closed
  FROM (SELECT id, session FROM windlass.leased
         WHERE session = ANY (ARRAY(SELECT id FROM windlass.session WHERE lost))
         LIMIT :limit) AS l
 CROSS JOIN LATERAL (SELECT rules FROM windlass.task WHERE task.id = l.id OFFSET 0) AS t
 CROSS JOIN LATERAL (SELECT closed FROM windlass.session WHERE session.id = l.session OFFSET 0) AS s;
