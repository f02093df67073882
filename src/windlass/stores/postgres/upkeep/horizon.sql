-- horizon: return for how many seconds the oldest transaction that blocks vacuum has been open.
-- Sessions of other users show their times only to members of pg_read_all_stats, so this is a lower bound. Vacuum's own
-- snapshot blocks nobody, nor does ours. Prepared transactions have no session.
SELECT coalesce(extract(epoch FROM clock_timestamp() - min(held.since)), 0)::float8
  FROM (SELECT a.xact_start
          FROM pg_catalog.pg_stat_activity AS a
         WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
           AND a.backend_type <> 'autovacuum worker'
           AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL)
         UNION ALL
        SELECT p.prepared FROM pg_catalog.pg_prepared_xacts AS p WHERE p.database = current_database())
       AS held (since);
