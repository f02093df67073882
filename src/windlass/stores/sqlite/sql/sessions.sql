-- sessions: return live sessions and those closed or lost recently; their workers only if requested.
-- A session from before the machine's boot is at least as old as that.
SELECT id, node, about, max(0, CASE WHEN boot = :boot THEN :now - renewed ELSE :now END), lost,
       CASE WHEN :workers THEN workers ELSE '' END
  FROM session
 WHERE lost = 0 OR CASE WHEN boot = :boot THEN :now - renewed ELSE :now END < :age
 ORDER BY id DESC;
