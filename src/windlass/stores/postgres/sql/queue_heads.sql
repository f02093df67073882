-- queue_heads: return when the longest waiting runnable task of each queue became due, and whether the queue is paused.
-- One lookup per partition; usually there is one. One for all lanes.
SELECT asked.queue,
       least((
        SELECT min(head.due)
          FROM (SELECT number FROM windlass.lot WHERE lot.queue = asked.queue
                 UNION ALL
                SELECT 0 WHERE NOT EXISTS (SELECT FROM windlass.lot WHERE lot.queue = asked.queue)) AS lots
         CROSS JOIN LATERAL (
               SELECT r.due FROM windlass.runnable AS r
                WHERE r.queue = asked.queue AND r.lot = lots.number AND r.lot >= 0
                ORDER BY r.due LIMIT 1) AS head), (
        SELECT r.due FROM windlass.runnable AS r WHERE r.queue = asked.queue AND r.lot <= -1 ORDER BY r.due LIMIT 1)),
       EXISTS (SELECT FROM windlass.queue AS q WHERE q.name = asked.queue AND q.paused
                  AND (q.paused_until IS NULL OR q.paused_until > windlass.clock(:now)))
  FROM unnest(:queues::text[]) AS asked (queue);
