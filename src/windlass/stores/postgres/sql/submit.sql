-- submit: create tasks.
-- moves: new -> waiting | scheduled | runnable | cancelled | expired
-- No ON CONFLICT: a key taken by a concurrent submit fails this one, which is then tried again and sees it.
-- batch: id uuid, queue text, tenant text, state text, band bigint, rank bigint, tie bigint, due bigint,
--   expires bigint, waiting integer, on_failure text, finished bigint, reason text
INSERT INTO windlass.task
       (id, queue, tenant, state, band, rank, tie, due, expires, waiting, on_failure, finished, reason, lot)
SELECT i.*, coalesce(open_lot.number, 0)
  FROM unnest(:id::uuid[], :queue::text[], :tenant::text[], :state::text[], :band::bigint[], :rank::bigint[],
              :tie::bigint[], :due::bigint[], :expires::bigint[], :waiting::integer[], :on_failure::text[],
              :finished::bigint[], :reason::text[])
       AS i (id, queue, tenant, state, band, rank, tie, due, expires, waiting, on_failure, finished, reason)
  LEFT JOIN (SELECT queue, max(number) AS number FROM windlass.lot GROUP BY queue) AS open_lot USING (queue);
