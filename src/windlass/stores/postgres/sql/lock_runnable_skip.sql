-- lock_runnable_skip: lock those of these tasks that are runnable, and return their ids, without those that others have
-- locked.
-- batch: id uuid
SELECT t.id
  FROM unnest(:id::uuid[]) AS i (id)
 CROSS JOIN LATERAL (
       SELECT id, queue, lot, band, rank, tie FROM windlass.task WHERE task.id = i.id OFFSET 0) AS t
 CROSS JOIN LATERAL (
       SELECT FROM windlass.runnable AS r
        WHERE r.queue = t.queue AND r.lot = t.lot AND r.band = t.band AND r.rank = t.rank AND r.tie = t.tie AND r.id = t.id
          FOR UPDATE SKIP LOCKED) AS r;
