-- queues: return every queue that has tasks.
SELECT DISTINCT queue FROM windlass.count_delta ORDER BY queue;
