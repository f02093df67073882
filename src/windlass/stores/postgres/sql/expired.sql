-- expired: return unfinished tasks past their expiry time. Leased ones are stopped by their node.
-- moves: waiting | scheduled | runnable | retrying -> expired
SELECT id FROM windlass.task
 WHERE expires <= :now AND expires IS NOT NULL AND finished IS NULL AND state <> 'leased'
 ORDER BY expires LIMIT :limit;
