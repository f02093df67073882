-- limit_waits: let the next statements of this transaction wait for each lock at most this long. A shorter limit of the
-- caller holds, and `restore_waits` restores the old one.
SELECT set_config('windlass_saved.lock_timeout', current_setting('lock_timeout'), true),
       set_config('lock_timeout', CASE WHEN present.seconds = 0 OR present.seconds * 1000 > :milliseconds::bigint
                                       THEN (:milliseconds::bigint)::text ELSE current_setting('lock_timeout') END, true)
  FROM (SELECT extract(epoch FROM current_setting('lock_timeout')::interval) AS seconds) AS present;
