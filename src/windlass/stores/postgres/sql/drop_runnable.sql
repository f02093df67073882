-- drop_runnable: remove tasks from the runnable ones, on rows that `lock_runnable` has locked.
-- batch: id uuid
DELETE FROM windlass.runnable
 WHERE ctid = ANY (ARRAY(
       SELECT r.place
         FROM unnest(:id::uuid[]) AS i (id)
        CROSS JOIN LATERAL (
              SELECT id, queue, lot, band, rank, tie FROM windlass.task WHERE task.id = i.id OFFSET 0) AS t
        CROSS JOIN LATERAL (
              SELECT r.ctid AS place FROM windlass.runnable AS r
               WHERE r.queue = t.queue AND r.lot = t.lot AND r.band = t.band AND r.rank = t.rank AND r.tie = t.tie
                 AND r.id = t.id OFFSET 0) AS r));
