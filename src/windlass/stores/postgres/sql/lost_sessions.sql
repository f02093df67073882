-- lost_sessions: mark sessions as lost that were not renewed in time, or whose machine has rebooted.
UPDATE windlass.session SET lost = true
 WHERE NOT lost AND (renewed + ttl < (SELECT windlass.clock(:now)) OR boot <> :boot)
RETURNING id;
