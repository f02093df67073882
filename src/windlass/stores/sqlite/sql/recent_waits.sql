-- recent_waits: the tasks that completed last, with their queues: how long each had waited since it was due.
SELECT t.queue, max(0, latest.claimed - t.due)
  FROM (SELECT id, claimed FROM completed WHERE finished >= :since ORDER BY finished DESC LIMIT :limit) AS latest
 CROSS JOIN task AS t ON t.id = latest.id
 WHERE t.wait IS NULL;
