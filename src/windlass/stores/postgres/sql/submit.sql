-- submit: insert tasks.
-- No ON CONFLICT: if a concurrent submit has inserted the key, this one fails, and its next try finds that task.
-- moves: new -> waiting | scheduled | runnable | cancelled | expired
-- batch: id uuid, queue text, tenant text, state text, band bigint, rank bigint, tie bigint, due bigint,
--   expires bigint, waiting integer, on_failure text, finished bigint, reason text,
--   kind bigint
WITH lots AS MATERIALIZED (
    SELECT queue, windlass.open_lot(queue) AS number FROM (SELECT DISTINCT unnest(:queue::text[]) AS queue) AS queues
)
INSERT INTO windlass.task
       (id, queue, tenant, state, band, rank, tie, due, expires, waiting, on_failure, finished, reason, kind, lot)
SELECT i.*, lots.number
  FROM unnest(:id::uuid[], :queue::text[], :tenant::text[], :state::text[], :band::bigint[], :rank::bigint[],
              :tie::bigint[], :due::bigint[], :expires::bigint[], :waiting::integer[], :on_failure::text[],
              :finished::bigint[], :reason::text[], :kind::bigint[])
       AS i (id, queue, tenant, state, band, rank, tie, due, expires, waiting, on_failure, finished, reason, kind)
  JOIN lots USING (queue);
