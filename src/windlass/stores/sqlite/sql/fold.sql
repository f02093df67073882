-- fold: remove deltas from the counts, to write them back as sums.
DELETE FROM tally
 WHERE rowid IN (SELECT rowid FROM tally LIMIT :limit)
RETURNING queue, tenant, state, tasks, at, arrived, waited, longest;
