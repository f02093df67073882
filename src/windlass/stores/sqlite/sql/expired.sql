-- expired: unfinished tasks past their hard limit; leased ones are their node's to stop.
-- moves: waiting | scheduled | runnable | retrying -> expired
SELECT id FROM task
 WHERE expires <= :now AND expires IS NOT NULL AND finished IS NULL AND state <> 'leased'
 ORDER BY expires LIMIT :limit;
