-- kinds: return the kinds of runnable tasks in a queue, each with the needs of one of its tasks.
-- One index lookup per kind and partition, however many tasks there are.
WITH RECURSIVE lots AS (
    SELECT number FROM windlass.lot WHERE queue = :queue
     UNION ALL
    SELECT 0 WHERE NOT EXISTS (SELECT FROM windlass.lot WHERE queue = :queue)
), heads AS (
    SELECT lots.number, head.kind, head.id
      FROM lots CROSS JOIN LATERAL (
           SELECT r.kind, r.id FROM windlass.runnable AS r
            WHERE r.queue = :queue AND r.lot = lots.number AND r.lot > -1
            ORDER BY r.kind, r.band, r.rank, r.tie, r.id
            LIMIT 1) AS head
     UNION ALL
    SELECT heads.number, head.kind, head.id
      FROM heads CROSS JOIN LATERAL (
           SELECT r.kind, r.id FROM windlass.runnable AS r
            WHERE r.queue = :queue AND r.lot = heads.number AND r.lot > -1 AND r.kind > heads.kind
            ORDER BY r.kind, r.band, r.rank, r.tie, r.id
            LIMIT 1) AS head
)
SELECT one.kind, t.handler, t.rules
  FROM (SELECT DISTINCT ON (kind) kind, id FROM heads ORDER BY kind) AS one
 CROSS JOIN LATERAL (SELECT handler, rules FROM windlass.task WHERE task.id = one.id OFFSET 0) AS t;
