-- count_matching: count the tasks that an index finds for some states or workflows, or the newest, and those that match.
-- At most `looked_at` tasks are looked at. A null condition holds for all.
SELECT count(*), count(*) FILTER (WHERE (
           SELECT (:states IS NULL OR t.state IN (SELECT value FROM json_each(:states)))
              AND (:queues IS NULL OR t.queue IN (SELECT value FROM json_each(:queues)))
              AND (:tenants IS NULL OR t.tenant IN (SELECT value FROM json_each(:tenants)))
              AND t.submitted >= :since AND t.submitted < :before
              AND (:workflows IS NULL OR t.workflow IN (SELECT value FROM json_each(:workflows)))
              AND (:handlers IS NULL OR t.handler IN (SELECT value FROM json_each(:handlers)))
             FROM current_task AS t WHERE t.id = found.id))
  FROM (SELECT id FROM (SELECT id FROM task
                         WHERE :failed AND state = 'failed' ORDER BY finished, id LIMIT :looked_at) AS failed
         UNION ALL
        SELECT id FROM (SELECT id FROM leased WHERE :leased LIMIT :looked_at) AS leased
         UNION ALL
        SELECT id FROM (SELECT id FROM runnable WHERE :runnable LIMIT :looked_at) AS runnable
         UNION ALL
        SELECT id FROM (SELECT id FROM task
                         WHERE :due AND state IN ('scheduled', 'retrying') LIMIT :looked_at) AS due
         UNION ALL
        SELECT id FROM (SELECT id FROM task
                         WHERE workflow IS NOT NULL AND workflow IN (SELECT value FROM json_each(:workflows)) LIMIT :looked_at) AS member
         UNION ALL
        SELECT id FROM (SELECT id FROM task
                         WHERE :newest AND submitted >= :since AND submitted < :before
                         ORDER BY submitted DESC, id DESC LIMIT :looked_at) AS newest
         LIMIT :looked_at) AS found;
