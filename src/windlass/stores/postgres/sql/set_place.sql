-- set_place: set the places of locked tasks in their queues. Runnable ones are removed before and added after it.
-- batch: id uuid, band bigint, rank bigint, tie bigint
UPDATE windlass.task AS t
   SET band = i.band, rank = i.rank, tie = i.tie, lot = windlass.lot_of(t.queue, t.tenant)
  FROM unnest(:id::uuid[], :band::bigint[], :rank::bigint[], :tie::bigint[]) AS i (id, band, rank, tie)
 WHERE t.id = i.id;
