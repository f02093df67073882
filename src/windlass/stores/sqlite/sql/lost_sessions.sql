-- lost_sessions: mark sessions as lost that were not renewed in time, or whose machine has rebooted.
UPDATE session SET lost = 1
 WHERE lost = 0 AND (renewed + ttl < :now OR boot <> :boot)
RETURNING id;
