-- governed_queue: return the time, and what a claim must know about a queue before it chooses: whether anything may be
-- claimed, whether it is fair, whether a limit has held back tasks, whether it has lanes to be emptied, and the number of
-- the current settings.
SELECT :now,
       EXISTS (SELECT 1 FROM session AS s WHERE s.id = +:session AND s.lost = 0)
       AND NOT EXISTS (SELECT 1 FROM queue AS q WHERE q.name = +:queue AND q.paused = 1
                          AND (q.paused_until IS NULL OR q.paused_until > +:now)),
       EXISTS (SELECT 1 FROM queue AS q WHERE q.name = +:queue AND q.fair = 1),
       EXISTS (SELECT 1 FROM parked AS p WHERE p.queue = +:queue AND p.name <> ''),
       EXISTS (SELECT 1 FROM parked AS p WHERE p.queue = +:queue AND p.tenant = '' AND p.name = ''),
       (SELECT settings FROM meta);
