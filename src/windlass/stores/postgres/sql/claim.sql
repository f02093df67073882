-- claim: select and lock the next tasks of a queue, in its order.
-- Runnable rows need no check of their due time. A lost session or a paused queue gets nothing. Rows that others have
-- locked are skipped, so claims never wait for each other. Usually there is one partition (`lot`).
-- moves: runnable -> leased
WITH lots AS (
    SELECT number, band, rank, tie, id FROM windlass.lot WHERE queue = :queue
     UNION ALL
    SELECT 0, -9223372036854775808, -9223372036854775808, -9223372036854775808,
           '00000000-0000-0000-0000-000000000000'
     WHERE NOT EXISTS (SELECT FROM windlass.lot WHERE queue = :queue)
), chosen AS MATERIALIZED (
    SELECT head.*
      FROM lots CROSS JOIN LATERAL (
           SELECT id, queue, tenant, state, band, rank, tie, due, expires, waiting, on_failure, fence, session,
                  claimed, finished, attempts, crashes, losses, generation, cancel_requested, cancel_by, reason
             FROM windlass.task AS t
            WHERE t.queue = :queue AND t.lot = lots.number AND t.state = 'runnable'
              AND (t.band, t.rank, t.tie, t.id) >= (lots.band, lots.rank, lots.tie, lots.id)
              AND (t.expires IS NULL OR t.expires > (SELECT windlass.clock(:now)))
              AND EXISTS (SELECT FROM windlass.session AS s WHERE s.id = :session AND NOT s.lost)
              AND NOT EXISTS (SELECT FROM windlass.queue AS q WHERE q.name = :queue AND q.paused)
            ORDER BY t.band, t.rank, t.tie, t.id
            LIMIT :limit
              FOR UPDATE SKIP LOCKED) AS head
)
SELECT (SELECT epoch FROM windlass.meta), (SELECT windlass.clock(:now)),
       c.id, c.queue, c.tenant, c.state, c.band, c.rank, c.tie, c.due, c.expires, c.waiting, c.on_failure, c.fence,
       c.session, c.claimed, c.finished, c.attempts, c.crashes, c.losses, c.generation, c.cancel_requested,
       c.cancel_by, c.reason,
       b.handler, b.args, b.rules, b.workflow, b.key, b.priority, b.deadline, b.first_due, b.submitted
  FROM chosen AS c CROSS JOIN LATERAL (
       -- OFFSET 0: look each one up by its id; joined freely, a large claim would read all of the table.
       SELECT handler, args, rules, workflow, key, priority, deadline, first_due, submitted
         FROM windlass.body WHERE body.id = c.id OFFSET 0) AS b
 ORDER BY c.band, c.rank, c.tie, c.id
 LIMIT :limit;
