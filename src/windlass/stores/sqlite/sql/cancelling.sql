-- cancelling: return the leases of a session whose tasks should be cancelled.
SELECT id, fence FROM task
 WHERE session = :session AND state = 'leased' AND cancel_requested
 ORDER BY id;
