-- count_matching: count the tasks that an index finds for some states or workflows, or the newest, and those that match.
-- At most `looked_at` tasks are looked at. A null condition holds for all. Each task is looked up by its id in a
-- subquery, which no statistics turn into a join that reads a whole table.
SELECT count(*), count(*) FILTER (WHERE (
           SELECT (:states::text[] IS NULL OR t.state = ANY (:states::text[]))
              AND (:queues::text[] IS NULL OR t.queue = ANY (:queues::text[]))
              AND (:tenants::text[] IS NULL OR t.tenant = ANY (:tenants::text[]))
              AND t.submitted >= :since::bigint AND t.submitted < :before::bigint
              AND (:workflows::text[] IS NULL OR t.workflow = ANY (:workflows::text[]))
              AND (:handlers::text[] IS NULL OR t.handler = ANY (:handlers::text[]))
             FROM windlass.current_task AS t WHERE t.id = found.id))
  FROM (SELECT id FROM (SELECT id FROM windlass.task
                         WHERE :failed::boolean AND state = 'failed' ORDER BY finished, id LIMIT :looked_at) AS failed
         UNION ALL
        SELECT id FROM (SELECT id FROM windlass.leased WHERE :leased::boolean LIMIT :looked_at) AS leased
         UNION ALL
        SELECT id FROM (SELECT id FROM windlass.runnable WHERE :runnable::boolean LIMIT :looked_at) AS runnable
         UNION ALL
        SELECT id FROM (SELECT id FROM windlass.task
                         WHERE :due::boolean AND state IN ('scheduled', 'retrying') LIMIT :looked_at) AS due
         UNION ALL
        SELECT id FROM (SELECT id FROM windlass.task
                         WHERE workflow IS NOT NULL AND workflow = ANY (:workflows::text[]) LIMIT :looked_at) AS member
         UNION ALL
        SELECT id FROM (SELECT id FROM windlass.task
                         WHERE :newest::boolean AND submitted >= :since::bigint AND submitted < :before::bigint
                         ORDER BY submitted DESC, id DESC LIMIT :looked_at) AS newest
         LIMIT :looked_at) AS found;
