-- kinds: return the kinds of runnable tasks in a queue, each with the needs of one of its tasks.
-- One index lookup per kind and partition, however many tasks there are.
WITH RECURSIVE lots AS (
    SELECT number FROM windlass.lot WHERE queue = :queue
     UNION ALL
    SELECT 0 WHERE NOT EXISTS (SELECT FROM windlass.lot WHERE queue = :queue)
), heads AS (
    SELECT lots.number, head.kind, head.id
      FROM lots CROSS JOIN LATERAL (
           SELECT t.kind, t.id FROM windlass.task AS t
            WHERE t.queue = :queue AND t.lot = lots.number AND t.state = 'runnable'
            ORDER BY t.kind, t.band, t.rank, t.tie, t.id
            LIMIT 1) AS head
     UNION ALL
    SELECT heads.number, head.kind, head.id
      FROM heads CROSS JOIN LATERAL (
           SELECT t.kind, t.id FROM windlass.task AS t
            WHERE t.queue = :queue AND t.lot = heads.number AND t.state = 'runnable' AND t.kind > heads.kind
            ORDER BY t.kind, t.band, t.rank, t.tie, t.id
            LIMIT 1) AS head
)
SELECT one.kind, b.handler, b.rules
  FROM (SELECT DISTINCT ON (kind) kind, id FROM heads ORDER BY kind) AS one
 CROSS JOIN LATERAL (SELECT handler, rules FROM windlass.body WHERE body.id = one.id OFFSET 0) AS b;
