-- indexed_candidates: return the tasks of some states or workflows that have an index, up to a limit.
-- The states are flags, because a flag is checked once and not for every row.
SELECT (SELECT submitted FROM windlass.body WHERE id = found.id), found.id
  FROM (SELECT id FROM (SELECT id FROM windlass.task
                         WHERE :failed::boolean AND state = 'failed' ORDER BY finished, id LIMIT :limit) AS failed
         UNION ALL
        SELECT id FROM (SELECT id FROM windlass.task WHERE :leased::boolean AND state = 'leased' LIMIT :limit) AS leased
         UNION ALL
        SELECT id FROM (SELECT id FROM windlass.task WHERE :runnable::boolean AND state = 'runnable' LIMIT :limit) AS runnable
         UNION ALL
        SELECT id FROM (SELECT id FROM windlass.task
                         WHERE :due::boolean AND state IN ('scheduled', 'retrying') LIMIT :limit) AS due
         UNION ALL
        SELECT id FROM (SELECT id FROM windlass.body
                         WHERE workflow IS NOT NULL AND workflow = ANY (:workflows::text[]) LIMIT :limit) AS member) AS found
 LIMIT :limit;
