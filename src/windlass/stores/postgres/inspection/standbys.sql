-- standbys: count the standbys that follow this server, and the connections of which this role cannot see what they are.
-- Without the rights of pg_read_all_stats, `state` is NULL. A base backup is neither catching up nor streaming,
-- pg_receivewal replays nothing, and a subscriber of logical replication has a slot of its own kind.
SELECT count(*) FILTER (WHERE r.state IN ('catchup', 'streaming') AND r.replay_lsn IS NOT NULL AND s.pid IS NULL),
       count(*) FILTER (WHERE r.state IS NULL)
  FROM pg_catalog.pg_stat_replication AS r
  LEFT JOIN (SELECT active_pid AS pid FROM pg_catalog.pg_replication_slots WHERE slot_type = 'logical') AS s
    ON s.pid = r.pid;
