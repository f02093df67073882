-- restore_waits: undo `limit_waits`.
SELECT set_config('lock_timeout', current_setting('windlass_saved.lock_timeout'), true);
