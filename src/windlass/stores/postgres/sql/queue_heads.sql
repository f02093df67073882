-- queue_heads: return when the longest waiting runnable task of each queue became due, and whether the queue is paused.
-- One lookup per partition; usually there is one.
SELECT asked.queue,
       (SELECT min(head.due)
          FROM (SELECT number FROM windlass.lot WHERE lot.queue = asked.queue
                 UNION ALL
                SELECT 0 WHERE NOT EXISTS (SELECT FROM windlass.lot WHERE lot.queue = asked.queue)) AS lots
         CROSS JOIN LATERAL (
               SELECT t.due FROM windlass.task AS t
                WHERE t.queue = asked.queue AND t.lot = lots.number AND t.state = 'runnable'
                ORDER BY t.due LIMIT 1) AS head),
       EXISTS (SELECT FROM windlass.queue AS q WHERE q.name = asked.queue AND q.paused)
  FROM unnest(:queues::text[]) AS asked (queue);
