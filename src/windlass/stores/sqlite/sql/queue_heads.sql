-- queue_heads: return when the longest waiting runnable task of each queue became due, and whether the queue is paused.
SELECT asked.value,
       (SELECT r.due FROM runnable AS r WHERE r.queue = asked.value ORDER BY r.due LIMIT 1),
       EXISTS (SELECT 1 FROM queue AS q WHERE q.name = asked.value AND q.paused = 1
                  AND (q.paused_until IS NULL OR q.paused_until > :now))
  FROM json_each(:queues) AS asked;
