-- progress: store the progress of attempts. Returns a row for each that still holds its task.
-- The lease is not locked, because it is hot. So progress may be written just after its attempt ended or its task was
-- removed; the condition on the fence keeps it from replacing that of a later attempt.
-- batch: task uuid, fence bigint, session uuid, share float8, message text
WITH held AS MATERIALIZED (
    SELECT i.task, i.fence, i.session, i.share, i.message
      FROM unnest(:task::uuid[], :fence::bigint[], :session::uuid[], :share::float8[], :message::text[])
           AS i (task, fence, session, share, message)
     CROSS JOIN LATERAL (
           SELECT fence, session FROM windlass.leased WHERE leased.id = i.task OFFSET 0) AS l
     WHERE l.fence = i.fence AND l.session = i.session
), written AS (
    INSERT INTO windlass.progress AS seen (task, fence, share, message, at)
    SELECT task, fence, share, message, (SELECT windlass.clock(:now)) FROM held ORDER BY task
        ON CONFLICT (task) DO UPDATE
       SET fence = excluded.fence, share = excluded.share, message = excluded.message, at = excluded.at
     WHERE seen.fence <= excluded.fence
)
SELECT task, fence, session FROM held;
