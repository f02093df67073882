-- forget_sessions: remove sessions that were lost long ago and hold nothing.
DELETE FROM windlass.session AS s
 WHERE s.lost AND s.renewed < (SELECT windlass.clock(:now)) - :age::bigint
   AND NOT EXISTS (SELECT FROM windlass.leased AS l WHERE l.session = s.id);
