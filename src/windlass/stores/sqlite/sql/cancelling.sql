-- cancelling: return the leases of a session whose tasks should be cancelled.
SELECT id, fence FROM leased WHERE session = :session AND cancel_requested ORDER BY id;
