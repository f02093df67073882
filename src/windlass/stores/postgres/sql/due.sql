-- due: return tasks that have become due, and waits that are over.
-- moves: scheduled | retrying -> runnable
-- moves: scheduled -> completed | expired
SELECT id FROM windlass.task
 WHERE state IN ('scheduled', 'retrying') AND due <= :now
 ORDER BY due LIMIT :limit;
