-- enqueue: submit plain tasks (no key, prerequisites, workflow or times) in a transaction of its own.
-- moves: new -> runnable
-- One round trip instead of four statements. If a queue has another order or a limit, it does nothing and returns no row.
-- Like `prepare`, `lot_of` assigns a transaction id before it looks up the open partition. The wake-ups are sent with
-- it (:to_notify): a commit with NOTIFY takes a lock on the whole server, no longer here than in a transaction of its own.
-- What tasks have in common is passed once: `part` is the position in those arrays, from 0.
-- batch: id uuid, args text, part integer
WITH clock AS MATERIALIZED (
    SELECT windlass.clock(:now) AS now
     WHERE NOT EXISTS (SELECT FROM windlass.queue
                        WHERE name = ANY (:queue::text[]) AND (strategy <> 'priority' OR max_waiting IS NOT NULL))
), parts AS MATERIALIZED (
    SELECT p.*, p.nth - 1 AS part, windlass.lot_of(p.queue, p.tenant) AS lot, clock.now
      FROM clock CROSS JOIN unnest(:queue::text[], :tenant::text[], :band::bigint[], :rank::bigint[], :on_failure::text[],
                                   :handler::text[], :rules::text[], :priority::integer[], :kind::bigint[])
           WITH ORDINALITY AS p (queue, tenant, band, rank, on_failure, handler, rules, priority, kind, nth)
), new AS MATERIALIZED (
    SELECT i.id, i.args, p.queue, p.tenant, p.band, p.rank, p.on_failure, p.handler, p.rules, p.priority, p.kind, p.lot,
           p.now, p.now + i.nth - 1 AS due
      FROM unnest(:id::uuid[], :args::text[], :part::integer[]) WITH ORDINALITY AS i (id, args, part, nth)
      JOIN parts AS p USING (part)
), tasks AS (
    INSERT INTO windlass.task (id, queue, tenant, state, band, rank, tie, due, waiting, on_failure, lot, kind, handler, args,
                               rules, priority, first_due, submitted)
    SELECT id, queue, tenant, 'queued', band, rank, due, due, 0, on_failure, lot, kind, handler, args, rules, priority, due,
           now
      FROM new
), ready AS (
    INSERT INTO windlass.runnable (queue, lot, band, rank, tie, id, kind, due)
    SELECT queue, lot, band, rank, due, id, kind, due FROM new
), counted AS (
    INSERT INTO windlass.count_delta (queue, tenant, state, tasks, at, arrived)
    SELECT queue, tenant, 'runnable', count(*), min(now), count(*) FROM new GROUP BY queue, tenant
)
SELECT now, (SELECT count(pg_notify('windlass', queue)) FROM unnest(:to_notify::text[]) AS queue) FROM clock;
