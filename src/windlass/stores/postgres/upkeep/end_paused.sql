-- end_paused: end a connection, unless its process has gone on since its last statement began.
SELECT pg_terminate_backend(pid), coalesce(client_addr::text, 'this machine')
  FROM pg_catalog.pg_stat_activity
 WHERE pid = :pid AND state_change = :since AND state = 'active' AND wait_event = 'ClientRead';
