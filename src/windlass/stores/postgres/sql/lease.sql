-- lease: write the leases of a claim, on rows that `claim` has locked.
-- The condition on the state is written so that the planner looks up by id: with `state = 'runnable'` it would read the
-- index of all runnable tasks.
-- moves: runnable -> leased
-- batch: id uuid, fence bigint
UPDATE windlass.task AS t
   SET state = 'leased', fence = i.fence, session = :session, claimed = :now
  FROM unnest(:id::uuid[], :fence::bigint[]) AS i (id, fence)
 WHERE t.id = i.id AND t.state IS NOT DISTINCT FROM 'runnable';
