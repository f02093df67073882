-- merge_lot: move the rest of a closed partition into the open one, so that claims have fewer to look at.
-- `open_lot` reads after the rows are locked, and so after this transaction has its id: one who closes that partition
-- meanwhile waits for it (docs/decisions/0013-what-a-claim-can-see.md).
UPDATE windlass.task SET lot = (SELECT windlass.open_lot(:queue))
 WHERE id = ANY (ARRAY(SELECT id FROM windlass.task
                        WHERE queue = :queue AND lot = :number AND state = 'runnable'
                        LIMIT :limit
                          FOR UPDATE SKIP LOCKED));
