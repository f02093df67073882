-- progress: keep how far attempts have come; a row back for each that still holds its task.
-- No lock on the task, which is hot. So one report may be written just after its attempt has ended, or its task was
-- removed; the guard of the fence keeps it from covering what a later attempt has said.
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
