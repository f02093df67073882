-- due: return tasks that have become due.
-- moves: scheduled | retrying -> runnable
SELECT id FROM task
 WHERE state IN ('scheduled', 'retrying') AND due <= :now
 ORDER BY due LIMIT :limit;
