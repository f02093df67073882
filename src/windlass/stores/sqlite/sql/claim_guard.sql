-- claim_guard: return whether a session may claim, the number of the current settings, and those of some queues in which
-- `claim` takes nothing, because they are fair or have tasks that a limit held back.
SELECT EXISTS (SELECT 1 FROM session WHERE id = :session AND lost = 0), m.settings, governed.queue
  FROM meta AS m
  LEFT JOIN (SELECT asked.value AS queue
               FROM json_each(:queues) AS asked
              WHERE EXISTS (SELECT 1 FROM queue AS q WHERE q.name = asked.value AND q.fair = 1)
                 OR EXISTS (SELECT 1 FROM parked AS p WHERE p.queue = asked.value)) AS governed ON 1;
