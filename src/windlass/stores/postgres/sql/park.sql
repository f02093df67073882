-- park: move runnable tasks to other lanes. Those that are locked stay where they are.
-- batch: queue text, lot bigint, band bigint, rank bigint, tie bigint, id uuid, target bigint
WITH asked AS MATERIALIZED (
    SELECT * FROM unnest(:queue::text[], :lot::bigint[], :band::bigint[], :rank::bigint[], :tie::bigint[], :id::uuid[],
                         :target::bigint[]) AS i (queue, lot, band, rank, tie, id, target)
), held AS MATERIALIZED (
    -- The tasks first, like every change that is not on the hot path.
    SELECT t.id FROM windlass.task AS t WHERE t.id = ANY (:id::uuid[]) ORDER BY t.id FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM windlass.runnable
     WHERE ctid = ANY (ARRAY(
           SELECT locked.place
             FROM asked AS s JOIN held USING (id)
            CROSS JOIN LATERAL (
                  SELECT r.ctid AS place FROM windlass.runnable AS r
                   WHERE r.queue = s.queue AND r.lot = s.lot AND r.band = s.band AND r.rank = s.rank AND r.tie = s.tie
                     AND r.id = s.id
                     FOR UPDATE SKIP LOCKED) AS locked))
    RETURNING queue, band, rank, tie, id, kind, due, expires
), added AS (
    INSERT INTO windlass.runnable (queue, lot, band, rank, tie, id, kind, due, expires)
    SELECT gone.queue, asked.target, gone.band, gone.rank, gone.tie, gone.id, gone.kind, gone.due, gone.expires
      FROM gone JOIN asked ON asked.id = gone.id
    RETURNING id, lot
)
UPDATE windlass.task AS t SET lot = added.lot FROM added WHERE t.id = added.id
RETURNING t.id;
