-- claim_past: choose and lock the next tasks of a queue, in its order, but for those of some downstreams.
-- moves: runnable -> leased
-- As `claim`, which knows no downstreams and looks at no more than it takes: this one reads whatever it passes over.
WITH lots AS (
    SELECT number, band, rank, tie, id FROM windlass.lot WHERE queue = :queue
     UNION ALL
    SELECT 0, -9223372036854775808, -9223372036854775808, -9223372036854775808,
           '00000000-0000-0000-0000-000000000000'
     WHERE NOT EXISTS (SELECT FROM windlass.lot WHERE queue = :queue)
), chosen AS MATERIALIZED (
    SELECT head.*
      FROM lots CROSS JOIN LATERAL (
           SELECT t.id, t.queue, t.tenant, t.state, t.band, t.rank, t.tie, t.due, t.expires, t.waiting, t.on_failure,
                  t.fence, t.session, t.claimed, t.finished, t.attempts, t.crashes, t.losses, t.generation,
                  t.cancel_requested, t.cancel_by, t.reason,
                  b.handler, b.args, b.rules, b.workflow, b.key, b.priority, b.deadline, b.first_due, b.submitted
             FROM windlass.task AS t CROSS JOIN LATERAL (
                  -- OFFSET 0: look each one up by its id, in the order of the queue, and stop when there are enough.
                  SELECT handler, args, rules, workflow, key, priority, deadline, first_due, submitted,
                         rules::jsonb ->> 'downstream' AS downstream
                    FROM windlass.body WHERE body.id = t.id OFFSET 0) AS b
            WHERE t.queue = :queue AND t.lot = lots.number AND t.state = 'runnable'
              AND (t.band, t.rank, t.tie, t.id) >= (lots.band, lots.rank, lots.tie, lots.id)
              AND (t.expires IS NULL OR t.expires > (SELECT windlass.clock(:now)))
              AND EXISTS (SELECT FROM windlass.session AS s WHERE s.id = :session AND NOT s.lost)
              AND NOT EXISTS (SELECT FROM windlass.queue AS q WHERE q.name = :queue AND q.paused)
              AND (:only::text IS NULL OR b.downstream = :only)
              AND (b.downstream IS NULL OR b.downstream <> ALL (:shut::text[]))
            ORDER BY t.band, t.rank, t.tie, t.id
            LIMIT :limit
              FOR UPDATE OF t SKIP LOCKED) AS head
)
SELECT (SELECT epoch FROM windlass.meta), (SELECT windlass.clock(:now)),
       c.id, c.queue, c.tenant, c.state, c.band, c.rank, c.tie, c.due, c.expires, c.waiting, c.on_failure, c.fence,
       c.session, c.claimed, c.finished, c.attempts, c.crashes, c.losses, c.generation, c.cancel_requested,
       c.cancel_by, c.reason,
       c.handler, c.args, c.rules, c.workflow, c.key, c.priority, c.deadline, c.first_due, c.submitted
  FROM chosen AS c
 ORDER BY c.band, c.rank, c.tie, c.id
 LIMIT :limit;
