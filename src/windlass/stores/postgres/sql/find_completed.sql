-- find_completed: return the completed ones of these tasks.
-- A separate statement after the leases are locked: with its own snapshot it sees what was completed meanwhile.
-- batch: id uuid
SELECT c.id, c.fence, c.session, c.claimed, c.finished
  FROM unnest(:id::uuid[]) AS i (id)
 CROSS JOIN LATERAL (
       SELECT id, fence, session, claimed, finished FROM windlass.completed AS c WHERE c.id = i.id OFFSET 0) AS c;
