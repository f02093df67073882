-- merge_lot: move what is left of a closed lot into the open one, so that claims have few of them to look at.
UPDATE windlass.task SET lot = (SELECT max(number) FROM windlass.lot WHERE queue = :queue)
 WHERE id = ANY (ARRAY(SELECT id FROM windlass.task
                        WHERE queue = :queue AND lot = :number AND state = 'runnable'
                        LIMIT :limit
                          FOR UPDATE SKIP LOCKED));
