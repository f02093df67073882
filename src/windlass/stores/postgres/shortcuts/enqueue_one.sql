-- enqueue_one: submit one plain task, as `enqueue` does with many. With scalars instead of arrays it costs the server a
-- quarter less, and most calls submit one task.
-- moves: new -> runnable
WITH clock AS MATERIALIZED (
    SELECT windlass.clock(:now) AS now, windlass.lot_of(:queue, :tenant) AS lot
     WHERE NOT EXISTS (SELECT FROM windlass.queue
                        WHERE name = :queue AND (strategy <> 'priority' OR max_waiting IS NOT NULL))
), task AS (
    INSERT INTO windlass.task (id, queue, tenant, state, band, rank, tie, due, waiting, on_failure, lot, kind, handler, args,
                               rules, priority, first_due, submitted)
    SELECT :id::uuid, :queue, :tenant, 'queued', :band::bigint, :rank::bigint, now, now, 0, :on_failure, lot, :kind::bigint,
           :handler, :args, :rules, :priority::integer, now, now
      FROM clock
), ready AS (
    INSERT INTO windlass.runnable (queue, lot, band, rank, tie, id, kind, due)
    SELECT :queue, lot, :band::bigint, :rank::bigint, now, :id::uuid, :kind::bigint, now FROM clock
), counted AS (
    INSERT INTO windlass.count_delta (queue, tenant, state, tasks, at, arrived)
    SELECT :queue, :tenant, 'runnable', 1, now, 1 FROM clock
)
SELECT now, CASE WHEN :notify::boolean THEN pg_notify('windlass', :queue) END FROM clock;
