-- cancelling: return the leases of a session whose tasks should be cancelled.
-- OFFSET 0, or the planner may prefer the primary key for its order and read all leases.
SELECT id, fence
  FROM (SELECT id, fence FROM windlass.leased WHERE session = :session AND cancel_requested OFFSET 0) AS l
 ORDER BY id;
