-- continue_as: change a task whose attempt has ended to the call as which it continues. `settle` has written its state.
-- batch: id uuid, queue text, handler text, args text, rules text, kind bigint, band bigint, rank bigint, tie bigint,
--   on_failure text, waiting integer, due bigint
UPDATE windlass.task AS t
   SET queue = i.queue, handler = i.handler, args = i.args, rules = i.rules, kind = i.kind, band = i.band, rank = i.rank,
       tie = i.tie, on_failure = i.on_failure, waiting = i.waiting, due = i.due, attempts = 0, crashes = 0, losses = 0
  FROM unnest(:id::uuid[], :queue::text[], :handler::text[], :args::text[], :rules::text[], :kind::bigint[],
              :band::bigint[], :rank::bigint[], :tie::bigint[], :on_failure::text[], :waiting::integer[], :due::bigint[])
       AS i (id, queue, handler, args, rules, kind, band, rank, tie, on_failure, waiting, due)
 WHERE t.id = i.id;
