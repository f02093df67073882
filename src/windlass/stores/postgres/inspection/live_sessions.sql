-- live_sessions: how many nodes are not known to be gone.
SELECT count(*) FROM windlass.session WHERE NOT lost;
