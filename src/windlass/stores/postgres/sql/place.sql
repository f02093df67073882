-- place: give tasks their new places in their queues.
-- batch: id uuid, band bigint, rank bigint, tie bigint
UPDATE windlass.task AS t
   SET band = i.band, rank = i.rank, tie = i.tie,
       lot = coalesce((SELECT max(l.number) FROM windlass.lot AS l WHERE l.queue = t.queue), 0)
  FROM unnest(:id::uuid[], :band::bigint[], :rank::bigint[], :tie::bigint[]) AS i (id, band, rank, tie)
 WHERE t.id = i.id;
