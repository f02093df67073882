-- sessions: the sessions that are alive, and those closed or lost of late; their workers only if asked for.
-- One from before the machine was started is at least as old as that.
SELECT id, node, about, max(0, CASE WHEN boot = :boot THEN :now - renewed ELSE :now END), lost,
       CASE WHEN :workers THEN workers ELSE '' END
  FROM session
 WHERE lost = 0 OR CASE WHEN boot = :boot THEN :now - renewed ELSE :now END < :age
 ORDER BY id DESC;
