-- progress: store the progress of attempts. Returns a row for each that still holds its task.
-- The task is not locked, because it is hot. So progress may be written just after its attempt ended or its task was
-- removed; the condition on the fence keeps it from replacing that of a later attempt.
-- batch: task uuid, fence bigint, session uuid, share float8, message text
INSERT INTO windlass.progress AS seen (task, fence, share, message, at)
SELECT t.id, t.fence, i.share, i.message, (SELECT windlass.clock(:now))
  FROM unnest(:task::uuid[], :fence::bigint[], :session::uuid[], :share::float8[], :message::text[])
       AS i (task, fence, session, share, message)
  JOIN windlass.task AS t
    ON t.id = i.task AND t.state IS NOT DISTINCT FROM 'leased' AND t.fence = i.fence AND t.session = i.session
 ORDER BY t.id
    ON CONFLICT (task) DO UPDATE
   SET fence = excluded.fence, share = excluded.share, message = excluded.message, at = excluded.at
 WHERE seen.fence <= excluded.fence
RETURNING task, fence;
