-- lease: grant the leases of a claim, on rows that `claim` has locked.
-- moves: runnable -> leased
-- The guard is written so that the planner goes by id: a plain `state = 'runnable'` makes it read the index of all that
-- is runnable.
-- batch: id uuid, fence bigint
UPDATE windlass.task AS t
   SET state = 'leased', fence = i.fence, session = :session, claimed = :now
  FROM unnest(:id::uuid[], :fence::bigint[]) AS i (id, fence)
 WHERE t.id = i.id AND t.state IS NOT DISTINCT FROM 'runnable';
