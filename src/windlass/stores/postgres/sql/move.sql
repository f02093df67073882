-- move: change locked tasks. The caller decides about the moves and checks them, and moves the rows of the hot tables.
-- moves: waiting | scheduled | runnable | retrying -> cancelled | expired
-- moves: waiting -> scheduled | runnable | failed
-- moves: scheduled -> runnable | completed
-- moves: runnable -> scheduled
-- moves: retrying -> runnable
-- moves: failed | cancelled | expired -> runnable | waiting | scheduled
-- batch: id uuid, old text, state text, due bigint, expires bigint, waiting integer, fence bigint, finished bigint,
--   attempts integer, crashes integer, losses integer, generation integer, cancel_requested boolean,
--   cancel_by bigint, reason text
UPDATE windlass.task AS t
   SET state = i.state, due = i.due, expires = i.expires, waiting = i.waiting, fence = i.fence,
       finished = i.finished, attempts = i.attempts, crashes = i.crashes, losses = i.losses,
       generation = i.generation, cancel_requested = i.cancel_requested, cancel_by = i.cancel_by, reason = i.reason,
       lot = CASE WHEN i.state = 'queued' THEN windlass.lot_of(t.queue, t.tenant) ELSE t.lot END
  FROM unnest(:id::uuid[], :old::text[], :state::text[], :due::bigint[], :expires::bigint[], :waiting::integer[],
              :fence::bigint[], :finished::bigint[], :attempts::integer[], :crashes::integer[], :losses::integer[],
              :generation::integer[], :cancel_requested::boolean[], :cancel_by::bigint[], :reason::text[])
       AS i (id, old, state, due, expires, waiting, fence, finished, attempts, crashes, losses, generation,
             cancel_requested, cancel_by, reason)
 WHERE t.id = i.id AND t.state = i.old;
