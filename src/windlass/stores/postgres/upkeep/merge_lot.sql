-- merge_lot: move what is left of a closed lot into the open one, so that claims have few of them to look at.
-- `open_lot` looks after the rows are locked, and so after this transaction has its number: a lot that is closed while
-- this statement runs waits for it (docs/decisions/0013-what-a-claim-can-see.md).
UPDATE windlass.task SET lot = (SELECT windlass.open_lot(:queue))
 WHERE id = ANY (ARRAY(SELECT id FROM windlass.task
                        WHERE queue = :queue AND lot = :number AND state = 'runnable'
                        LIMIT :limit
                          FOR UPDATE SKIP LOCKED));
