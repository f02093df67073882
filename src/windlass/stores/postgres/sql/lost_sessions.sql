-- lost_sessions: mark the sessions that were not renewed in time, or whose machine has been started anew.
UPDATE windlass.session SET lost = true
 WHERE NOT lost AND (renewed + ttl < (SELECT windlass.clock(:now)) OR boot <> :boot)
RETURNING id;
