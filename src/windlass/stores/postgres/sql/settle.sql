-- settle: write the ends of attempts that did not complete, on tasks that `lock_tasks` has locked. `end_leases` removes
-- their leases.
-- moves: leased -> retrying | failed | cancelled | expired | runnable | scheduled | waiting
-- batch: id uuid, fence bigint, session uuid, claimed bigint, state text, due bigint, finished bigint, attempts integer,
--   crashes integer, losses integer, reason text, error_group text
UPDATE windlass.task AS t
   SET state = i.state, fence = i.fence, session = i.session, claimed = i.claimed, due = i.due, finished = i.finished,
       attempts = i.attempts, crashes = i.crashes, losses = i.losses, reason = i.reason, error_group = i.error_group,
       cancel_by = NULL, lot = CASE WHEN i.state = 'queued' THEN windlass.lot_of(t.queue, t.tenant) ELSE t.lot END
  FROM unnest(:id::uuid[], :fence::bigint[], :session::uuid[], :claimed::bigint[], :state::text[], :due::bigint[],
              :finished::bigint[], :attempts::integer[], :crashes::integer[], :losses::integer[], :reason::text[],
              :error_group::text[])
       AS i (id, fence, session, claimed, state, due, finished, attempts, crashes, losses, reason, error_group)
 WHERE t.id = i.id;
