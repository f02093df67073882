-- paused: return our connections that wait for their process in the middle of a pipeline, and when their last statement
-- began. The server counts these as active, because the end of the pipeline has not come, so its own limit for idle
-- transactions does not end them. A COPY may take as long as it likes: it is not ours, though it may have our name.
SELECT pid, state_change
  FROM pg_catalog.pg_stat_activity
 WHERE datname = current_database() AND usename = current_user
   AND application_name = current_setting('application_name')
   AND state = 'active' AND wait_event = 'ClientRead' AND xact_start IS NOT NULL AND query !~* '^\s*copy\s';
