-- settle: write the ends of attempts, on rows that `lock_tasks` has locked.
-- Checked by fence and session: a node that lost this task and claimed it again must not end the new attempt with the
-- old result. The condition on the state is written so that the planner looks up by id, not by the index of leased
-- tasks.
-- moves: leased -> completed | retrying | failed | cancelled | expired | runnable | scheduled
-- batch: id uuid, fence bigint, session uuid, state text, due bigint, finished bigint, attempts integer,
--   crashes integer, losses integer, reason text, error_group text
UPDATE windlass.task AS t
   SET state = i.state, due = i.due, finished = i.finished, attempts = i.attempts, crashes = i.crashes,
       losses = i.losses, reason = i.reason, error_group = i.error_group, cancel_by = NULL,
       lot = CASE WHEN i.state = 'runnable' THEN windlass.open_lot(t.queue) ELSE t.lot END
  FROM unnest(:id::uuid[], :fence::bigint[], :session::uuid[], :state::text[], :due::bigint[], :finished::bigint[],
              :attempts::integer[], :crashes::integer[], :losses::integer[], :reason::text[], :error_group::text[])
       AS i (id, fence, session, state, due, finished, attempts, crashes, losses, reason, error_group)
 WHERE t.id = i.id AND t.state IS NOT DISTINCT FROM 'leased' AND t.fence = i.fence AND t.session = i.session;
