-- roll_up_series: take out seconds that are no longer kept, to be put back as minutes.
DELETE FROM windlass.series
 WHERE ctid = ANY (ARRAY(SELECT ctid FROM windlass.series WHERE width = :width AND at < :before
                          ORDER BY at LIMIT :limit FOR UPDATE SKIP LOCKED))
RETURNING queue, at, arrived, started, completed, failed, retried, waited, longest;
