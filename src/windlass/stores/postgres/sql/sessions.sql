-- sessions: return live sessions and those closed or lost recently; their workers only if requested.
SELECT id, node, about, greatest(0, windlass.clock(:now) - renewed), lost,
       CASE WHEN :workers THEN workers ELSE '' END
  FROM windlass.session
 WHERE NOT lost OR windlass.clock(:now) - renewed < :age::bigint
 ORDER BY id DESC;
