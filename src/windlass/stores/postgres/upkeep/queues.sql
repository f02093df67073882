-- queues: return every queue that has tasks.
SELECT DISTINCT queue FROM windlass.tally ORDER BY queue;
