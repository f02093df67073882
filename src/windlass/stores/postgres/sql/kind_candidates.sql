-- kind_candidates: as `candidates`, for some kinds of tasks in partitions.
-- batch: queue text, lot bigint, kind bigint, tasks bigint
SELECT i.queue, i.lot, head.band, head.rank, head.tie, head.id, t.tenant, t.handler, t.rules
  FROM unnest(:queue::text[], :lot::bigint[], :kind::bigint[], :tasks::bigint[]) AS i (queue, lot, kind, tasks)
  LEFT JOIN windlass.lot AS l ON l.queue = i.queue AND l.number = i.lot
 CROSS JOIN LATERAL (
           SELECT r.band, r.rank, r.tie, r.id
             FROM windlass.runnable AS r
            WHERE r.queue = i.queue AND r.lot = i.lot AND r.lot > -1 AND r.kind = i.kind
              AND (r.band, r.rank, r.tie, r.id) >= (
                   coalesce(l.band, -9223372036854775808), coalesce(l.rank, -9223372036854775808),
                   coalesce(l.tie, -9223372036854775808), coalesce(l.id, '00000000-0000-0000-0000-000000000000'))
              AND (r.expires IS NULL OR r.expires > :now::bigint)
            ORDER BY r.band, r.rank, r.tie, r.id
            LIMIT i.tasks) AS head
 CROSS JOIN LATERAL (SELECT tenant, handler, rules FROM windlass.task WHERE task.id = head.id OFFSET 0) AS t;
