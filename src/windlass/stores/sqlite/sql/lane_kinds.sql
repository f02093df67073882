-- lane_kinds: return the kinds of runnable tasks in a lane, each with the needs of one of its tasks. One index lookup per
-- kind.
-- batch: queue text, lot integer
WITH RECURSIVE kinds (kind) AS (
    SELECT min(kind) FROM runnable WHERE queue = :queue AND lot = :lot
     UNION ALL
    SELECT (SELECT min(r.kind) FROM runnable AS r WHERE r.queue = :queue AND r.lot = :lot AND r.kind > kinds.kind)
      FROM kinds WHERE kinds.kind IS NOT NULL
)
SELECT :lot, kinds.kind, t.handler, t.rules
  FROM kinds CROSS JOIN task AS t
    ON t.id = (SELECT r.id FROM runnable AS r WHERE r.queue = :queue AND r.lot = :lot AND r.kind = kinds.kind LIMIT 1);
