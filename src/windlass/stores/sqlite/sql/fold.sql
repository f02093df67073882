-- fold: remove deltas from the counts, to write them back as sums.
DELETE FROM count_delta
 WHERE rowid IN (SELECT rowid FROM count_delta LIMIT :limit)
RETURNING queue, tenant, state, tasks, at, arrived, waited, longest;
