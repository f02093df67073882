-- merge_lot: move the rest of a closed partition into the open one, so that claims have fewer to look at.
-- `open_lot` reads after the rows are locked, and so after this transaction has its id: one who closes that partition
-- meanwhile waits for it (docs/decisions/0013-what-a-claim-can-see.md).
WITH rest AS MATERIALIZED (
    SELECT lot, band, rank, tie, id FROM windlass.runnable WHERE queue = :queue AND lot = :number LIMIT :limit
), held AS MATERIALIZED (
    -- The tasks first, like every change that is not on the hot path.
    SELECT t.id FROM windlass.task AS t WHERE t.id = ANY (ARRAY(SELECT id FROM rest)) FOR UPDATE SKIP LOCKED
), moved AS (
    UPDATE windlass.runnable AS r SET lot = (SELECT windlass.open_lot(:queue))
     WHERE r.ctid = ANY (ARRAY(
           SELECT locked.place
             FROM rest AS s JOIN held USING (id)
            CROSS JOIN LATERAL (
                  SELECT r.ctid AS place FROM windlass.runnable AS r
                   WHERE r.queue = :queue AND r.lot = s.lot AND r.band = s.band AND r.rank = s.rank AND r.tie = s.tie
                     AND r.id = s.id
                     FOR UPDATE SKIP LOCKED) AS locked))
    RETURNING r.id, r.lot
)
UPDATE windlass.task AS t SET lot = moved.lot FROM moved WHERE t.id = moved.id;
