-- roll_up_series: take out seconds that are no longer kept, to be put back as minutes.
DELETE FROM series
 WHERE rowid IN (SELECT rowid FROM series WHERE width = :width AND at < :before ORDER BY at LIMIT :limit)
RETURNING queue, at, arrived, started, completed, failed, retried, waited, longest;
