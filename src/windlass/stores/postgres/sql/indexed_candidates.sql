-- indexed_candidates: return the tasks of some states or workflows that have an index, up to a limit.
-- The states are flags, because a flag is checked once and not for every row.
SELECT (SELECT submitted FROM windlass.task WHERE id = found.id), found.id
  FROM (SELECT id FROM (SELECT id FROM windlass.task
                         WHERE :failed::boolean AND state = 'failed' ORDER BY finished, id LIMIT :limit) AS failed
         UNION ALL
        SELECT id FROM (SELECT id FROM windlass.leased WHERE :leased::boolean LIMIT :limit) AS leased
         UNION ALL
        SELECT id FROM (SELECT id FROM windlass.runnable WHERE :runnable::boolean LIMIT :limit) AS runnable
         UNION ALL
        SELECT id FROM (SELECT id FROM windlass.task
                         WHERE :due::boolean AND state IN ('scheduled', 'retrying') LIMIT :limit) AS due
         UNION ALL
        SELECT id FROM (SELECT id FROM windlass.task
                         WHERE workflow IS NOT NULL AND workflow = ANY (:workflows::text[]) LIMIT :limit) AS member) AS found
 LIMIT :limit;
