-- complete: write completed attempts of a session, which only a cancel request could change.
-- One statement that does not touch `task`, because most attempts end like this. Leases are locked in id order. It returns
-- the ids of what it wrote, unless that is everything, what fair queues need of each attempt, and the scopes of limits.
-- Attempts that it did not write need `settle`.
-- moves: leased -> completed
-- batch: id uuid, fence bigint
WITH held AS MATERIALIZED (
    SELECT l.place
      FROM (SELECT id, fence FROM unnest(:id::uuid[], :fence::bigint[]) AS i (id, fence) ORDER BY id) AS i
     CROSS JOIN LATERAL (
           SELECT l.ctid AS place FROM windlass.leased AS l
            WHERE l.id = i.id AND l.fence = i.fence AND l.session = :session::uuid AND NOT l.cancel_requested
              FOR UPDATE) AS l
), gone AS (
    DELETE FROM windlass.leased WHERE ctid = ANY (ARRAY(SELECT place FROM held))
    RETURNING id, fence, claimed, queue, tenant, handler, limit_key, limited, charge
), clock AS MATERIALIZED (
    SELECT windlass.clock(:now) AS now
), written AS (
    INSERT INTO windlass.completed (id, fence, session, claimed, finished)
    SELECT id, fence, :session::uuid, claimed, now FROM gone CROSS JOIN clock
), counts AS MATERIALIZED (
    SELECT queue, tenant, count(*) AS tasks FROM gone GROUP BY queue, tenant
), counted AS (
    INSERT INTO windlass.count_delta (queue, tenant, state, tasks, at)
    SELECT queue, tenant, 'completed', tasks, now FROM counts CROSS JOIN clock
     UNION ALL
    SELECT queue, tenant, 'leased', -tasks, NULL FROM counts
)
SELECT now,
       CASE WHEN coalesce((SELECT sum(tasks) FROM counts), 0) < cardinality(:id::uuid[]) THEN ARRAY(SELECT id FROM gone) END,
       (SELECT jsonb_agg(jsonb_build_array(replace(id::text, '-', ''), queue, tenant, claimed, charge))
          FROM gone WHERE charge IS NOT NULL),
       (SELECT jsonb_agg(jsonb_build_array(queue, tenant, handler, limit_key))
          FROM (SELECT DISTINCT queue, tenant, handler, limit_key FROM gone WHERE limited) AS scopes)
  FROM clock;
