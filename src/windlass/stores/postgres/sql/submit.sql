-- submit: insert tasks. `add_runnable` makes those runnable that are queued.
-- No ON CONFLICT: if a concurrent submit has inserted the key, this one fails, and its next try finds that task.
-- moves: new -> waiting | scheduled | runnable | completed | cancelled | expired
-- batch: id uuid, queue text, tenant text, state text, band bigint, rank bigint, tie bigint, due bigint,
--   expires bigint, waiting integer, on_failure text, finished bigint, reason text, kind bigint, handler text, args text,
--   rules text, workflow text, workflow_tenant text, key text, fingerprint uuid, priority integer, deadline bigint,
--   first_due bigint, submitted bigint
WITH lots AS MATERIALIZED (
    SELECT queue, tenant, windlass.lot_of(queue, tenant) AS number
      FROM (SELECT DISTINCT i.queue, i.tenant FROM unnest(:queue::text[], :tenant::text[]) AS i (queue, tenant)) AS i
)
INSERT INTO windlass.task
       (id, queue, tenant, state, band, rank, tie, due, expires, waiting, on_failure, finished, reason, kind, handler,
        args, rules, workflow, workflow_tenant, key, fingerprint, priority, deadline, first_due, submitted, lot)
SELECT i.*, lots.number
  FROM unnest(:id::uuid[], :queue::text[], :tenant::text[], :state::text[], :band::bigint[], :rank::bigint[],
              :tie::bigint[], :due::bigint[], :expires::bigint[], :waiting::integer[], :on_failure::text[],
              :finished::bigint[], :reason::text[], :kind::bigint[], :handler::text[], :args::text[], :rules::text[],
              :workflow::text[], :workflow_tenant::text[], :key::text[], :fingerprint::uuid[], :priority::integer[],
              :deadline::bigint[], :first_due::bigint[], :submitted::bigint[])
       AS i (id, queue, tenant, state, band, rank, tie, due, expires, waiting, on_failure, finished, reason, kind, handler,
             args, rules, workflow, workflow_tenant, key, fingerprint, priority, deadline, first_due, submitted)
  JOIN lots ON lots.queue = i.queue AND lots.tenant = i.tenant;
