-- lost_sessions: mark sessions as lost that were not renewed in time, or whose machine has rebooted.
-- One whose row is locked is left to a later sweep: its node may be paused in the middle of renewing it.
UPDATE windlass.session SET lost = true
 WHERE id = ANY (ARRAY(
       SELECT id FROM windlass.session
        WHERE NOT lost AND (renewed + ttl < (SELECT windlass.clock(:now)) OR boot <> :boot)
          FOR UPDATE SKIP LOCKED))
RETURNING id;
