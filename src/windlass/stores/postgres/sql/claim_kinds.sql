-- claim_kinds: select and lock the next tasks of some kinds in some queues, in one common order.
-- As `claim`, for a claimer that does not serve every kind. The first tasks of each kind are read without locks, then
-- locked in order until there are enough.
-- moves: runnable -> leased
-- batch: queue text, kind bigint
WITH asked AS (
    SELECT queue, kind FROM unnest(:queue::text[], :kind::bigint[]) AS i (queue, kind)
     WHERE EXISTS (SELECT FROM windlass.session AS s WHERE s.id = :session AND NOT s.lost)
       AND NOT EXISTS (SELECT FROM windlass.queue AS q WHERE q.name = i.queue AND q.paused)
), heads AS MATERIALIZED (
    SELECT head.id
      FROM asked CROSS JOIN LATERAL (
           SELECT number, band, rank, tie, id FROM windlass.lot WHERE lot.queue = asked.queue
            UNION ALL
           SELECT 0, -9223372036854775808, -9223372036854775808, -9223372036854775808,
                  '00000000-0000-0000-0000-000000000000'
            WHERE NOT EXISTS (SELECT FROM windlass.lot WHERE lot.queue = asked.queue)) AS lots
     CROSS JOIN LATERAL (
           SELECT t.band, t.rank, t.tie, t.id
             FROM windlass.task AS t
            WHERE t.queue = asked.queue AND t.lot = lots.number AND t.kind = asked.kind AND t.state = 'runnable'
              AND (t.band, t.rank, t.tie, t.id) >= (lots.band, lots.rank, lots.tie, lots.id)
              AND (t.expires IS NULL OR t.expires > (SELECT windlass.clock(:now)))
            ORDER BY t.band, t.rank, t.tie, t.id
            LIMIT :reach) AS head
     ORDER BY head.band, head.rank, head.tie, head.id
     LIMIT :reach
), chosen AS MATERIALIZED (
    SELECT locked.*
      FROM heads CROSS JOIN LATERAL (
           SELECT id, queue, tenant, state, band, rank, tie, due, expires, waiting, on_failure, fence, session,
                  claimed, finished, attempts, crashes, losses, generation, cancel_requested, cancel_by, reason
             FROM windlass.task AS t
            WHERE t.id = heads.id AND t.state IS NOT DISTINCT FROM 'runnable'
              FOR UPDATE SKIP LOCKED) AS locked
     LIMIT :limit
)
SELECT (SELECT epoch FROM windlass.meta), (SELECT windlass.clock(:now)),
       c.id, c.queue, c.tenant, c.state, c.band, c.rank, c.tie, c.due, c.expires, c.waiting, c.on_failure, c.fence,
       c.session, c.claimed, c.finished, c.attempts, c.crashes, c.losses, c.generation, c.cancel_requested,
       c.cancel_by, c.reason,
       b.handler, b.args, b.rules, b.workflow, b.key, b.priority, b.deadline, b.first_due, b.submitted
  FROM chosen AS c CROSS JOIN LATERAL (
       SELECT handler, args, rules, workflow, key, priority, deadline, first_due, submitted
         FROM windlass.body WHERE body.id = c.id OFFSET 0) AS b;
