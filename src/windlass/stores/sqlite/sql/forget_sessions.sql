-- forget_sessions: remove sessions that were lost long ago and hold nothing.
DELETE FROM session AS s
 WHERE s.lost AND s.renewed < :now - :age
   AND NOT EXISTS (SELECT 1 FROM leased AS l WHERE l.session = s.id);
