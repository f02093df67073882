-- claim_guard: return whether a session may claim, the number of the current settings, and those of some queues in which
-- `claim` takes nothing, because they are fair or have tasks that a limit held back.
SELECT EXISTS (SELECT FROM windlass.session WHERE id = :session::uuid AND NOT lost), m.settings, governed.queue
  FROM windlass.meta AS m
  LEFT JOIN (SELECT asked.queue
               FROM unnest(:queues::text[]) AS asked (queue)
              WHERE EXISTS (SELECT FROM windlass.queue AS q WHERE q.name = asked.queue AND q.fair)
                 OR (SELECT true FROM windlass.parked AS p WHERE p.queue = asked.queue LIMIT 1)) AS governed ON true
 WHERE m.one;
