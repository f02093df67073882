-- fold: remove deltas from the counts, to write them back as sums.
DELETE FROM windlass.count_delta
 WHERE ctid = ANY (ARRAY(SELECT ctid FROM windlass.count_delta LIMIT :limit FOR UPDATE SKIP LOCKED))
RETURNING queue, tenant, state, tasks, at, arrived, waited, longest;
