-- live_sessions: how many nodes are not known to be gone.
SELECT count(*) FROM session WHERE NOT lost;
