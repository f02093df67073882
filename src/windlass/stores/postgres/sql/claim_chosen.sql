-- claim_chosen: lease tasks that a claim has chosen (stores/sql/governed_claim.py) and count them. Those that are locked or
-- gone are left out.
-- moves: runnable -> leased
-- batch: queue text, lot bigint, band bigint, rank bigint, tie bigint, id uuid, limit_key text, charge bigint
WITH clock AS MATERIALIZED (
    SELECT windlass.clock(:now) AS now, (SELECT epoch FROM windlass.meta WHERE one) AS epoch
), asked AS MATERIALIZED (
    SELECT * FROM unnest(:queue::text[], :lot::bigint[], :band::bigint[], :rank::bigint[], :tie::bigint[], :id::uuid[],
                         :limit_key::text[], :charge::bigint[]) AS i (queue, lot, band, rank, tie, id, limit_key, charge)
), chosen AS MATERIALIZED (
    SELECT locked.place
      FROM asked AS i CROSS JOIN LATERAL (
           SELECT r.ctid AS place
             FROM windlass.runnable AS r
            WHERE r.queue = i.queue AND r.lot = i.lot AND r.band = i.band AND r.rank = i.rank AND r.tie = i.tie
              AND r.id = i.id
              FOR UPDATE SKIP LOCKED) AS locked
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
    INSERT INTO windlass.leased (id, fence, session, claimed, queue, tenant, handler, limit_key, limited, charge)
    SELECT work.id, next_fence, :session::uuid, now, work.queue, tenant, handler, i.limit_key, :limited::boolean, i.charge
      FROM work JOIN asked AS i ON i.id = work.id
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
