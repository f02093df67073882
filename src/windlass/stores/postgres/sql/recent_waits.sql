-- recent_waits: the tasks that completed last, with their queues: how long each had waited since it was due.
SELECT t.queue, greatest(0, latest.claimed - t.due)
  FROM (SELECT id, claimed FROM windlass.completed WHERE finished >= :since ORDER BY finished DESC LIMIT :limit) AS latest
 CROSS JOIN LATERAL (SELECT queue, due, wait FROM windlass.task WHERE task.id = latest.id OFFSET 0) AS t
 WHERE t.wait IS NULL;
