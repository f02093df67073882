-- kinds: return the kinds of runnable tasks in a queue, each with the needs of one of its tasks.
-- One index lookup per kind, however many tasks there are.
WITH RECURSIVE kinds (kind) AS (
    SELECT min(kind) FROM task WHERE queue = :queue AND state = 'runnable'
     UNION ALL
    SELECT (SELECT min(t.kind) FROM task AS t WHERE t.queue = :queue AND t.state = 'runnable' AND t.kind > kinds.kind)
      FROM kinds WHERE kinds.kind IS NOT NULL
)
SELECT kinds.kind, b.handler, b.rules
  FROM kinds CROSS JOIN body AS b
    ON b.id = (SELECT t.id FROM task AS t WHERE t.queue = :queue AND t.state = 'runnable' AND t.kind = kinds.kind LIMIT 1);
