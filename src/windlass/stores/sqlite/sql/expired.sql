-- expired: return unfinished tasks past their expiry time. Leased ones are stopped by their node.
-- moves: waiting | scheduled | runnable | retrying -> expired
SELECT id FROM (SELECT id FROM task
                 WHERE expires <= :now AND expires IS NOT NULL AND state IN ('waiting', 'scheduled', 'retrying')
                 ORDER BY expires LIMIT :limit)
 UNION ALL
SELECT id FROM (SELECT id FROM runnable WHERE expires <= :now AND expires IS NOT NULL ORDER BY expires LIMIT :limit)
 LIMIT :limit;
