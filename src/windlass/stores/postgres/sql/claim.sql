-- claim: lease the next tasks of a queue, in its order, and count them. It takes nothing from a queue that needs more than
-- that (`claim_guard`): a fair queue, or one with tasks that a limit held back; nor if the settings have changed.
-- Runnable rows need no check of their due time. A lost session or a paused queue gets nothing. Rows that others have
-- locked are skipped, so claims never wait for each other. Usually there is one partition (`lot`). Only rows that were
-- removed from `runnable` are leased.
-- moves: runnable -> leased
WITH clock AS MATERIALIZED (
    SELECT windlass.clock(:now) AS now, (SELECT epoch FROM windlass.meta WHERE one) AS epoch
), lots AS (
    SELECT number, band, rank, tie, id FROM windlass.lot WHERE queue = :queue
     UNION ALL
    SELECT 0, -9223372036854775808, -9223372036854775808, -9223372036854775808,
           '00000000-0000-0000-0000-000000000000'
     WHERE NOT EXISTS (SELECT FROM windlass.lot WHERE queue = :queue)
), chosen AS MATERIALIZED (
    SELECT head.place
      FROM lots CROSS JOIN LATERAL (
           SELECT r.ctid AS place, r.band, r.rank, r.tie, r.id
             FROM windlass.runnable AS r
            WHERE r.queue = :queue AND r.lot = lots.number
              AND (r.band, r.rank, r.tie, r.id) >= (lots.band, lots.rank, lots.tie, lots.id)
              AND (r.expires IS NULL OR r.expires > (SELECT now FROM clock))
              AND EXISTS (SELECT FROM windlass.session AS s WHERE s.id = :session::uuid AND NOT s.lost)
              AND NOT EXISTS (SELECT FROM windlass.queue AS q
                               WHERE q.name = :queue
                                 AND (q.fair OR q.paused AND (q.paused_until IS NULL OR q.paused_until > (SELECT now FROM clock))))
              AND NOT EXISTS (SELECT FROM windlass.parked AS p WHERE p.queue = :queue)
              AND (SELECT settings FROM windlass.meta WHERE one) = :settings
            ORDER BY r.band, r.rank, r.tie, r.id
            LIMIT :limit
              FOR UPDATE SKIP LOCKED) AS head
     ORDER BY head.band, head.rank, head.tie, head.id
     LIMIT :limit
), taken AS (
    DELETE FROM windlass.runnable WHERE ctid = ANY (ARRAY(SELECT place FROM chosen))
    RETURNING band, rank, tie, id
), work AS MATERIALIZED (
    SELECT t.*, taken.band, taken.rank, taken.tie, clock.now,
           windlass.next_fence(t.fence, clock.epoch, t.submitted) AS next_fence
      FROM taken CROSS JOIN clock CROSS JOIN LATERAL (
           SELECT id, queue, tenant, due, expires, fence, attempts, crashes, losses, handler, args, rules, workflow, key,
                  deadline, submitted
             FROM windlass.task WHERE task.id = taken.id OFFSET 0) AS t
), granted AS (
    INSERT INTO windlass.leased (id, fence, session, claimed, queue, tenant, handler, limited)
    SELECT id, next_fence, :session::uuid, now, queue, tenant, handler, :limited::boolean FROM work
), counts AS MATERIALIZED (
    SELECT queue, tenant, count(*) AS tasks, min(now) AS now, sum(greatest(0, now - due)) AS waited,
           max(greatest(0, now - due)) AS longest
      FROM work GROUP BY queue, tenant
), counted AS (
    INSERT INTO windlass.count_delta (queue, tenant, state, tasks, at, waited, longest)
    SELECT queue, tenant, 'leased', tasks, now, waited, longest FROM counts
     UNION ALL
    SELECT queue, tenant, 'runnable', -tasks, NULL, NULL, NULL FROM counts
)
SELECT id, next_fence, handler, args, rules, queue, tenant, due, now, attempts, crashes, losses, expires, deadline,
       workflow, key
  FROM work
 ORDER BY band, rank, tie, id;
