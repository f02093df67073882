-- set_place: set the places of tasks in their queues.
-- batch: id uuid, band bigint, rank bigint, tie bigint
UPDATE windlass.task AS t
   SET band = i.band, rank = i.rank, tie = i.tie, lot = windlass.open_lot(t.queue)
  FROM unnest(:id::uuid[], :band::bigint[], :rank::bigint[], :tie::bigint[]) AS i (id, band, rank, tie)
 WHERE t.id = i.id;
