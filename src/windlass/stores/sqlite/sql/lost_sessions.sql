-- lost_sessions: mark the sessions that were not renewed in time, or whose machine has been started anew.
UPDATE session SET lost = 1
 WHERE lost = 0 AND (renewed + ttl < :now OR boot <> :boot)
RETURNING id;
