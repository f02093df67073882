-- enqueue: submit plain tasks (no key, prerequisites, workflow or times) in a transaction of its own.
-- moves: new -> runnable
-- One round trip instead of four statements. If a queue has another order or a limit, it does nothing and returns no row.
-- Like `prepare`, `open_lot` assigns a transaction id before it looks up the open partition. The wake-ups are sent with
-- it (:to_notify): a commit with NOTIFY takes a lock on the whole server, no longer here than in a transaction of its own.
-- batch: id uuid, nth integer, queue text, tenant text, band bigint, rank bigint, on_failure text, handler text,
--   args text, rules text, priority integer, kind bigint
WITH clock AS MATERIALIZED (
    SELECT windlass.clock(:now) AS now
     WHERE NOT EXISTS (SELECT FROM windlass.queue
                        WHERE name = ANY (:queues::text[]) AND (strategy <> 'priority' OR max_waiting IS NOT NULL))
), lots AS MATERIALIZED (
    SELECT queue, windlass.open_lot(queue) AS lot FROM clock CROSS JOIN unnest(:queues::text[]) AS queue
), new AS MATERIALIZED (
    SELECT i.*, clock.now + i.nth AS due, clock.now, lots.lot
      FROM unnest(:id::uuid[], :nth::integer[], :queue::text[], :tenant::text[], :band::bigint[], :rank::bigint[],
                  :on_failure::text[], :handler::text[], :args::text[], :rules::text[], :priority::integer[],
                  :kind::bigint[])
           AS i (id, nth, queue, tenant, band, rank, on_failure, handler, args, rules, priority, kind)
     CROSS JOIN clock
      JOIN lots USING (queue)
), tasks AS (
    INSERT INTO windlass.task (id, queue, tenant, state, band, rank, tie, due, waiting, on_failure, lot, kind)
    SELECT id, queue, tenant, 'runnable', band, rank, due, due, 0, on_failure, lot, kind FROM new
), bodies AS (
    INSERT INTO windlass.body (id, handler, args, rules, priority, first_due, submitted)
    SELECT id, handler, args, rules, priority, due, now FROM new
), counted AS (
    INSERT INTO windlass.count_delta (queue, tenant, state, tasks, at, arrived)
    SELECT queue, tenant, 'runnable', count(*), min(now), count(*) FROM new GROUP BY queue, tenant
)
SELECT now, (SELECT count(pg_notify('windlass', queue)) FROM unnest(:to_notify::text[]) AS queue) FROM clock;
