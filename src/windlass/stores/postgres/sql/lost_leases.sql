-- lost_leases: return the tasks that lost sessions hold.
-- Every sweep looks for them as long as the session is stored, because a claim that was running when its session was
-- marked may commit later.
-- moves: leased -> runnable | failed | cancelled | expired
SELECT l.id, l.session, t.rules
  FROM (SELECT id, session FROM windlass.leased
         WHERE session = ANY (ARRAY(SELECT id FROM windlass.session WHERE lost))
         LIMIT :limit) AS l
 CROSS JOIN LATERAL (SELECT rules FROM windlass.task WHERE task.id = l.id OFFSET 0) AS t;
