-- live_sessions: count the sessions that are not lost or closed.
SELECT count(*) FROM windlass.session WHERE NOT lost;
