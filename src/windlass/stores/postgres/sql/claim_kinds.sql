-- claim_kinds: lease the next tasks of some kinds in some queues, in one common order, and count them.
-- As `claim`, for a claimer that does not serve every kind. The first tasks of each kind are read without locks, then
-- locked in order until there are enough.
-- moves: runnable -> leased
-- batch: queue text, kind bigint
WITH clock AS MATERIALIZED (
    SELECT windlass.clock(:now) AS now, (SELECT epoch FROM windlass.meta WHERE one) AS epoch
), asked AS (
    SELECT queue, kind FROM unnest(:queue::text[], :kind::bigint[]) AS i (queue, kind)
     WHERE EXISTS (SELECT FROM windlass.session AS s WHERE s.id = :session::uuid AND NOT s.lost)
       AND NOT EXISTS (SELECT FROM windlass.queue AS q
                        WHERE q.name = i.queue
                          AND (q.fair OR q.paused AND (q.paused_until IS NULL OR q.paused_until > (SELECT now FROM clock))))
       AND (SELECT true FROM windlass.parked AS p WHERE p.queue = i.queue LIMIT 1) IS NULL
       AND (SELECT settings FROM windlass.meta WHERE one) = :settings
), heads AS MATERIALIZED (
    SELECT asked.queue, lots.number, head.band, head.rank, head.tie, head.id
      FROM asked CROSS JOIN LATERAL (
           SELECT number, band, rank, tie, id FROM windlass.lot WHERE lot.queue = asked.queue
            UNION ALL
           SELECT 0, -9223372036854775808, -9223372036854775808, -9223372036854775808,
                  '00000000-0000-0000-0000-000000000000'
            WHERE NOT EXISTS (SELECT FROM windlass.lot WHERE lot.queue = asked.queue)) AS lots
     CROSS JOIN LATERAL (
           SELECT r.band, r.rank, r.tie, r.id
             FROM windlass.runnable AS r
            WHERE r.queue = asked.queue AND r.lot = lots.number AND r.lot > -1 AND r.kind = asked.kind
              AND (r.band, r.rank, r.tie, r.id) >= (lots.band, lots.rank, lots.tie, lots.id)
              AND (r.expires IS NULL OR r.expires > (SELECT now FROM clock))
            ORDER BY r.band, r.rank, r.tie, r.id
            LIMIT :reach) AS head
     ORDER BY head.band, head.rank, head.tie, head.id
     LIMIT :reach
), chosen AS MATERIALIZED (
    SELECT locked.place
      FROM heads CROSS JOIN LATERAL (
           SELECT r.ctid AS place
             FROM windlass.runnable AS r
            WHERE r.queue = heads.queue AND r.lot = heads.number AND r.band = heads.band AND r.rank = heads.rank
              AND r.tie = heads.tie AND r.id = heads.id
              FOR UPDATE SKIP LOCKED) AS locked
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
