-- forget_sessions: remove sessions lost long ago that hold nothing.
DELETE FROM session AS s
 WHERE s.lost AND s.renewed < :now - :age
   AND NOT EXISTS (SELECT 1 FROM task AS t WHERE t.session = s.id AND t.state = 'leased');
