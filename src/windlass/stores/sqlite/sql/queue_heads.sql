-- queue_heads: return when the longest waiting runnable task of each queue became due, and whether the queue is paused.
SELECT asked.value,
       (SELECT t.due FROM task AS t WHERE t.queue = asked.value AND t.state = 'runnable' ORDER BY t.due LIMIT 1),
       EXISTS (SELECT 1 FROM queue AS q WHERE q.name = asked.value AND q.paused = 1)
  FROM json_each(:queues) AS asked;
