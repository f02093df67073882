-- kinds: return the kinds of runnable tasks in a queue, each with the needs of one of its tasks.
-- One index lookup per kind, however many tasks there are.
WITH RECURSIVE kinds (kind) AS (
    SELECT min(kind) FROM runnable WHERE queue = :queue AND lot = 0
     UNION ALL
    SELECT (SELECT min(r.kind) FROM runnable AS r WHERE r.queue = :queue AND r.lot = 0 AND r.kind > kinds.kind)
      FROM kinds WHERE kinds.kind IS NOT NULL
)
SELECT kinds.kind, t.handler, t.rules
  FROM kinds CROSS JOIN task AS t
    ON t.id = (SELECT r.id FROM runnable AS r WHERE r.queue = :queue AND r.lot = 0 AND r.kind = kinds.kind LIMIT 1);
