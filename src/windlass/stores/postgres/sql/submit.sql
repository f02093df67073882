-- submit: create tasks.
-- moves: new -> waiting | scheduled | runnable | cancelled | expired
-- No ON CONFLICT: a key taken by a concurrent submit fails this one, which is then tried again and sees it.
-- batch: id uuid, queue text, tenant text, state text, band bigint, rank bigint, tie bigint, due bigint,
--   expires bigint, waiting integer, on_failure text, finished bigint, reason text
INSERT INTO windlass.task
       (id, queue, tenant, state, band, rank, tie, due, expires, waiting, on_failure, finished, reason)
SELECT * FROM unnest(:id::uuid[], :queue::text[], :tenant::text[], :state::text[], :band::bigint[], :rank::bigint[],
                     :tie::bigint[], :due::bigint[], :expires::bigint[], :waiting::integer[], :on_failure::text[],
                     :finished::bigint[], :reason::text[]);
