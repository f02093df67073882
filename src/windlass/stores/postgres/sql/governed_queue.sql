-- governed_queue: return the time, and what a claim must know about a queue before it chooses: whether anything may be
-- claimed, whether it is fair, whether a limit has held back tasks, whether it has lanes to be emptied, and the number of
-- the current settings.
SELECT windlass.clock(:now),
       EXISTS (SELECT FROM windlass.session AS s WHERE s.id = :session::uuid AND NOT s.lost)
       AND NOT EXISTS (SELECT FROM windlass.queue AS q WHERE q.name = :queue AND q.paused
                          AND (q.paused_until IS NULL OR q.paused_until > windlass.clock(:now))),
       EXISTS (SELECT FROM windlass.queue AS q WHERE q.name = :queue AND q.fair),
       EXISTS (SELECT FROM windlass.parked AS p WHERE p.queue = :queue AND p.name <> ''),
       EXISTS (SELECT FROM windlass.parked AS p WHERE p.queue = :queue AND p.tenant = '' AND p.name = ''),
       (SELECT settings FROM windlass.meta WHERE one);
