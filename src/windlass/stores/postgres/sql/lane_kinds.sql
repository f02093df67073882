-- lane_kinds: return the kinds of runnable tasks in some lanes, each with the needs of one of its tasks. One index lookup
-- per lane and kind.
-- batch: queue text, lot bigint
WITH RECURSIVE heads AS (
    SELECT i.queue, i.lot, head.kind, head.id
      FROM unnest(:queue::text[], :lot::bigint[]) AS i (queue, lot) CROSS JOIN LATERAL (
           SELECT r.kind, r.id FROM windlass.runnable AS r
            WHERE r.queue = i.queue AND r.lot = i.lot AND r.lot < 0
            ORDER BY r.kind, r.band, r.rank, r.tie, r.id
            LIMIT 1) AS head
     UNION ALL
    SELECT heads.queue, heads.lot, head.kind, head.id
      FROM heads CROSS JOIN LATERAL (
           SELECT r.kind, r.id FROM windlass.runnable AS r
            WHERE r.queue = heads.queue AND r.lot = heads.lot AND r.lot < 0 AND r.kind > heads.kind
            ORDER BY r.kind, r.band, r.rank, r.tie, r.id
            LIMIT 1) AS head
)
SELECT heads.lot, heads.kind, t.handler, t.rules
  FROM heads CROSS JOIN LATERAL (SELECT handler, rules FROM windlass.task WHERE task.id = heads.id OFFSET 0) AS t;
