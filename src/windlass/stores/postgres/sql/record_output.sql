-- record_output: store what running attempts have printed so far. Returns a row for each that still holds its task.
-- The lease is locked, so that nothing is written after the end of an attempt, which stores the whole output. A lease that
-- is locked ends, or is being cancelled: it is not waited for, because a handler may end it in a long transaction.
-- batch: task uuid, fence bigint, session uuid, text text
WITH held AS MATERIALIZED (
    SELECT i.task, i.fence, i.session, i.text
      FROM unnest(:task::uuid[], :fence::bigint[], :session::uuid[], :text::text[]) AS i (task, fence, session, text)
     CROSS JOIN LATERAL (
           SELECT fence, session FROM windlass.leased WHERE leased.id = i.task OFFSET 0) AS l
     WHERE l.fence = i.fence AND l.session = i.session
), locked AS MATERIALIZED (
    SELECT h.task, h.fence, h.text
      FROM (SELECT task, fence, text FROM held ORDER BY task) AS h
     CROSS JOIN LATERAL (
           SELECT l.id FROM windlass.leased AS l
            WHERE l.id = h.task AND l.fence = h.fence
              FOR KEY SHARE SKIP LOCKED) AS l
), written AS (
    INSERT INTO windlass.log (task, fence, text) SELECT task, fence, text FROM locked
        ON CONFLICT (task, fence) DO UPDATE SET text = excluded.text
)
SELECT task, fence, session FROM held;
