-- indexed_candidates: return the tasks of some states or workflows that have an index, up to a limit.
-- The states are flags, because a flag is checked once and not for every row.
SELECT (SELECT submitted FROM task WHERE id = found.id), found.id
  FROM (SELECT id FROM (SELECT id FROM task
                         WHERE :failed AND state = 'failed' ORDER BY finished, id LIMIT :limit) AS failed
         UNION ALL
        SELECT id FROM (SELECT id FROM leased WHERE :leased LIMIT :limit) AS leased
         UNION ALL
        SELECT id FROM (SELECT id FROM runnable WHERE :runnable LIMIT :limit) AS runnable
         UNION ALL
        SELECT id FROM (SELECT id FROM task
                         WHERE :due AND state IN ('scheduled', 'retrying') LIMIT :limit) AS due
         UNION ALL
        SELECT id FROM (SELECT id FROM task
                         WHERE workflow IS NOT NULL AND workflow IN (SELECT value FROM json_each(:workflows)) LIMIT :limit) AS member) AS found
 LIMIT :limit;
